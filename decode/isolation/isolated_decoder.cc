#include "decode/isolation/isolated_decoder.h"

#include <algorithm>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "decode/isolation/internal/worker_process.h"
#include "decode/isolation/internal/worker_protocol.h"

namespace isocost {
namespace {

tl::unexpected<PartError> failed(ErrorCode code, std::string message, std::size_t part) {
  return tl::unexpected(PartError{Error(code, std::move(message)), part});
}

SampleShape shape_of(std::span<const PartBytes> parts) {
  SampleShape shape;
  for (const PartBytes& part : parts) shape.parts.push_back(*part.shape);
  return shape;
}

class IsolatedDecoder final : public SampleDecoder {
 public:
  IsolatedDecoder(const Recipe& recipe, const IsolationOptions& options)
      : recipe_(recipe),
        options_(options),
        setup_{recipe.description(), options.cpu_time.count(), options.memory},
        local_(make_in_process_decoder(recipe, options.cpu_time)),
        most_(options.workers > 0 ? options.workers
                                  : std::max(1U, std::thread::hardware_concurrency())) {}

  // Starts the first worker, so that a failure to start workers is known before any data comes.
  Status start() {
    ISOCOST_ASSIGN(auto worker, WorkerProcess::start(options_.program, setup_));
    if (!worker->filtered()) {
      log(options_.log, LogLevel::kWarning,
          "decode workers run without a filter of system calls, which this kernel or container "
          "does not allow");
    }
    const MutexLock lock(mutex_);
    idle_.push_back(std::move(worker));
    return {};
  }

  Tensors tensors(std::span<const PartBytes> parts, BufferPool& pool,
                  const std::stop_token& stop) override {
    const auto is_text = [](const PartBytes& part) {
      return part.shape->modality == Modality::kText;
    };
    if (std::all_of(parts.begin(), parts.end(), is_text)) return local_->tensors(parts, pool, stop);
    const auto planned = recipe_.tensor_plans(shape_of(parts));
    if (!planned) return tl::unexpected(PartError{planned.error(), 0});
    const Sample sample{parts, *planned, pool, stop};
    auto first = attempt(sample, /*alone=*/false);
    const auto* died = std::get_if<WorkerProcess::Died>(&first);
    if (died == nullptr) return std::get<Tensors>(std::move(first));
    if (auto refused = final_error(*died)) return tl::unexpected(*std::move(refused));
    log(options_.log, LogLevel::kWarning,
        "a decode worker " + died->how + "; its sample is decoded once more, alone");
    auto second = attempt(sample, /*alone=*/true);
    died = std::get_if<WorkerProcess::Died>(&second);
    if (died == nullptr) return std::get<Tensors>(std::move(second));
    if (auto refused = final_error(*died)) return tl::unexpected(*std::move(refused));
    return failed(ErrorCode::kCorrupt, "its decode worker " + died->how + ", twice", died->part);
  }

 private:
  using Attempt = std::variant<Tensors, WorkerProcess::Died>;

  // Returns an error for an end of a worker that a second attempt would not change.
  std::optional<PartError> final_error(const WorkerProcess::Died& died) const {
    if (died.cancelled) return PartError{Error(ErrorCode::kCancelled, "stopped while decoding"), 0};
    if (!died.over_time) return std::nullopt;
    const double allowed = std::chrono::duration<double>(options_.cpu_time).count();
    return PartError{Error(ErrorCode::kResourceExhausted,
                           "decoding it takes more than the " + std::to_string(allowed) +
                               " s of CPU time that decode_timeout allows: raise it"),
                     died.part};
  }

  struct Sample {
    std::span<const PartBytes> parts;
    std::span<const TensorPlan> tensors;
    BufferPool& pool;
    const std::stop_token& stop;
  };

  // One slot among the workers or, if `alone`, all of them, until the end of the scope.
  class WorkerSlot {
   public:
    WorkerSlot(IsolatedDecoder& decoder, bool alone, const std::stop_token& stop)
        : decoder_(decoder), alone_(alone), taken_(decoder.enter(alone, stop)) {}
    ~WorkerSlot() {
      if (taken_) decoder_.leave(alone_);
    }
    WorkerSlot(const WorkerSlot&) = delete;
    WorkerSlot& operator=(const WorkerSlot&) = delete;
    bool taken() const { return taken_; }

   private:
    IsolatedDecoder& decoder_;
    const bool alone_;
    const bool taken_;
  };

  Attempt attempt(const Sample& sample, bool alone) {
    const WorkerSlot slot(*this, alone, sample.stop);
    if (!slot.taken()) return Tensors(failed(ErrorCode::kCancelled, "stopped", 0));
    try {
      return decode(sample, alone);
    } catch (const std::bad_alloc&) {
      return Tensors(failed(ErrorCode::kOutOfMemory, "there is no memory left for its tensors", 0));
    }
  }

  // Makes an attempt; `fresh` takes a fresh worker, as the second attempt does. If an idle worker
  // died before it had read anything, the sample is not at fault.
  Attempt decode(const Sample& sample, bool fresh) {
    while (!fresh) {
      std::unique_ptr<WorkerProcess> idle = take_idle();
      if (!idle) break;
      Attempt outcome = decode_by(std::move(idle), sample);
      const auto* died = std::get_if<WorkerProcess::Died>(&outcome);
      if (died == nullptr || !died->read_nothing) return outcome;
    }
    auto started = WorkerProcess::start(options_.program, setup_);
    // A worker started when this decoder was made, so the cause is the state of this machine.
    if (!started) return Tensors(failed(ErrorCode::kUnavailable, started.error().message(), 0));
    return decode_by(*std::move(started), sample);
  }

  Attempt decode_by(std::unique_ptr<WorkerProcess> worker, const Sample& sample) {
    Attempt outcome = worker->decode(sample.parts, sample.tensors, sample.pool, sample.stop);
    if (std::holds_alternative<Tensors>(outcome)) {
      const MutexLock lock(mutex_);
      idle_.push_back(std::move(worker));
    }
    return outcome;
  }

  // Enters. New samples wait while another one waits to be alone.
  bool enter(bool alone, const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (alone) ++suspects_;
    const bool may = changed_.wait(mutex_, stop, [&]() ISOCOST_REQUIRES(mutex_) {
      return alone ? active_ == 0 : suspects_ == 0 && active_ < most_;
    });
    if (may) ++active_;
    if (!may && alone) --suspects_;
    return may;
  }
  void leave(bool alone) ISOCOST_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (alone) --suspects_;
      --active_;
    }
    changed_.notify_all();
  }
  std::unique_ptr<WorkerProcess> take_idle() ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (idle_.empty()) return nullptr;
    std::unique_ptr<WorkerProcess> worker = std::move(idle_.back());
    idle_.pop_back();
    return worker;
  }

  const Recipe recipe_;
  const IsolationOptions options_;
  const WorkerSetup setup_;
  const std::unique_ptr<SampleDecoder> local_;  // decodes text
  const std::size_t most_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::unique_ptr<WorkerProcess>> idle_ ISOCOST_GUARDED_BY(mutex_);
  std::size_t active_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::size_t suspects_ ISOCOST_GUARDED_BY(mutex_) = 0;  // samples that are alone or wait to be
};

}  // namespace

Result<std::unique_ptr<SampleDecoder>> make_isolated_decoder(const Recipe& recipe,
                                                             const IsolationOptions& options) {
  auto decoder = std::make_unique<IsolatedDecoder>(recipe, options);
  ISOCOST_TRY(decoder->start());
  return std::unique_ptr<SampleDecoder>(std::move(decoder));
}

}  // namespace isocost
