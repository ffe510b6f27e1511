#include "decode/isolated_decoder.h"

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "decode/internal/worker_process.h"
#include "decode/internal/worker_protocol.h"

namespace isocost {
namespace {

tl::unexpected<PartError> failed(ErrorCode code, std::string message, std::size_t part) {
  return tl::unexpected(PartError{Error(code, std::move(message)), part});
}

class IsolatedDecoder final : public SampleDecoder {
 public:
  IsolatedDecoder(const Recipe& recipe, const IsolationOptions& options)
      : options_(options),
        setup_{recipe.options(), options.cpu_time.count(), options.memory},
        local_(make_in_process_decoder(recipe, options.cpu_time)),
        most_(options.workers > 0 ? options.workers
                                  : std::max(1U, std::thread::hardware_concurrency())) {}

  // Starts the first worker: whether workers start at all is known before data is.
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
    auto first = attempt(parts, pool, stop, /*alone=*/false);
    const auto* died = std::get_if<WorkerProcess::Died>(&first);
    if (died == nullptr) return std::get<Tensors>(std::move(first));
    if (auto refused = final_error(*died)) return tl::unexpected(*std::move(refused));
    log(options_.log, LogLevel::kWarning,
        "a decode worker " + died->how + "; its sample is decoded once more, alone");
    auto second = attempt(parts, pool, stop, /*alone=*/true);
    died = std::get_if<WorkerProcess::Died>(&second);
    if (died == nullptr) return std::get<Tensors>(std::move(second));
    if (auto refused = final_error(*died)) return tl::unexpected(*std::move(refused));
    return failed(ErrorCode::kCorrupt, "its decode worker " + died->how + ", twice", died->part);
  }

 private:
  using Attempt = std::variant<Tensors, WorkerProcess::Died>;

  // An end that a second attempt would not change.
  std::optional<PartError> final_error(const WorkerProcess::Died& died) const {
    if (died.cancelled) return PartError{Error(ErrorCode::kCancelled, "stopped while decoding"), 0};
    if (!died.over_time) return std::nullopt;
    const double allowed = std::chrono::duration<double>(options_.cpu_time).count();
    return PartError{Error(ErrorCode::kResourceExhausted,
                           "decoding it takes more than the " + std::to_string(allowed) +
                               " s of CPU time that decode_timeout allows: raise it"),
                     died.part};
  }

  Attempt attempt(std::span<const PartBytes> parts, BufferPool& pool, const std::stop_token& stop,
                  bool alone) {
    if (!enter(alone, stop)) return Tensors(failed(ErrorCode::kCancelled, "stopped", 0));
    Attempt outcome = decode(parts, pool, stop);
    leave(alone);
    return outcome;
  }

  Attempt decode(std::span<const PartBytes> parts, BufferPool& pool, const std::stop_token& stop) {
    std::unique_ptr<WorkerProcess> worker = take_idle();
    if (!worker) {
      auto started = WorkerProcess::start(options_.program, setup_);
      if (!started) return Tensors(tl::unexpected(PartError{std::move(started).error(), 0}));
      worker = *std::move(started);
    }
    Attempt outcome = worker->decode(parts, pool, stop);
    if (std::holds_alternative<Tensors>(outcome)) {
      const MutexLock lock(mutex_);
      idle_.push_back(std::move(worker));
    }
    return outcome;
  }

  // Waits for a place among the workers, or, alone, until no other works.
  bool enter(bool alone, const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const bool may = changed_.wait(mutex_, stop, [&]() ISOCOST_REQUIRES(mutex_) {
      return !alone_ && (alone ? active_ == 0 : active_ < most_);
    });
    if (!may) return false;
    alone_ = alone;
    ++active_;
    return true;
  }
  void leave(bool alone) ISOCOST_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (alone) alone_ = false;
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

  const IsolationOptions options_;
  const WorkerSetup setup_;
  const std::unique_ptr<SampleDecoder> local_;  // for text
  const std::size_t most_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::unique_ptr<WorkerProcess>> idle_ ISOCOST_GUARDED_BY(mutex_);
  std::size_t active_ ISOCOST_GUARDED_BY(mutex_) = 0;
  bool alone_ ISOCOST_GUARDED_BY(mutex_) = false;
};

}  // namespace

Result<std::unique_ptr<SampleDecoder>> make_isolated_decoder(const Recipe& recipe,
                                                             const IsolationOptions& options) {
  auto decoder = std::make_unique<IsolatedDecoder>(recipe, options);
  ISOCOST_TRY(decoder->start());
  return std::unique_ptr<SampleDecoder>(std::move(decoder));
}

}  // namespace isocost
