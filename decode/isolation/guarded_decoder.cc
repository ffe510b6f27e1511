#include "decode/isolation/guarded_decoder.h"

#include <algorithm>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

std::string why_needed(MediaFormat format, const Error& error) {
  return std::string(format_name(format)) +
         " is decoded by the program isocost alone: install it and name it as decode_program, or "
         "leave such parts out by ignore_parts: " +
         error.message();
}

class GuardedDecoder final : public SampleDecoder {
 public:
  GuardedDecoder(const Recipe& recipe, const IsolationOptions& options)
      : recipe_(recipe),
        options_(options),
        here_(make_in_process_decoder(recipe, options.cpu_time)) {}

  Tensors tensors(std::span<const PartBytes> parts, BufferPool& pool,
                  const std::stop_token& stop) override {
    const auto guarded = std::ranges::find_if(
        parts, [](const PartBytes& part) { return needs_worker(part.shape->format); });
    if (guarded == parts.end()) return here_->tensors(parts, pool, stop);
    const auto workers = this->workers(stop);
    if (!workers) {
      return tl::unexpected(PartError{
          Error(ErrorCode::kUnavailable, why_needed(guarded->shape->format, workers.error())),
          static_cast<std::size_t>(guarded - parts.begin())});
    }
    return (*workers)->tensors(parts, pool, stop);
  }

  Status start_for(MediaFormat format, const std::stop_token& stop) override {
    if (!needs_worker(format)) return {};
    const auto workers = this->workers(stop);
    if (workers) return {};
    return Error(workers.error().code(), why_needed(format, workers.error()));
  }

 private:
  // Lets the next call in, however this one ends.
  class Making {
   public:
    explicit Making(GuardedDecoder& decoder) : decoder_(decoder) {}
    Making(const Making&) = delete;
    Making& operator=(const Making&) = delete;
    ~Making() { decoder_.end_making(); }

   private:
    GuardedDecoder& decoder_;
  };

  // Returns the decoder of worker processes. The first call makes it, without the lock, since that
  // starts a process and logs, and others wait for it; if it fails, the next call tries again.
  Result<SampleDecoder*> workers(const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      const bool ready =
          made_.wait(mutex_, stop, [this]() ISOCOST_REQUIRES(mutex_) { return !is_being_made_; });
      if (!ready) return Error(ErrorCode::kCancelled, "stopped before a worker started");
      if (workers_) return workers_.get();
      is_being_made_ = true;
    }
    const Making making(*this);
    ISOCOST_ASSIGN(auto workers, make_isolated_decoder(recipe_, options_));
    const MutexLock lock(mutex_);
    workers_ = std::move(workers);
    return workers_.get();
  }

  void end_making() ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    is_being_made_ = false;
    made_.notify_all();
  }

  const Recipe recipe_;
  const IsolationOptions options_;
  const std::unique_ptr<SampleDecoder> here_;
  Mutex mutex_;
  ConditionVariable made_;
  bool is_being_made_ ISOCOST_GUARDED_BY(mutex_) = false;
  std::unique_ptr<SampleDecoder> workers_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<SampleDecoder> make_guarded_decoder(const Recipe& recipe,
                                                    const IsolationOptions& options) {
  return std::make_unique<GuardedDecoder>(recipe, options);
}

}  // namespace isocost
