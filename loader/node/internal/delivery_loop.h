#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include "base/log.h"
#include "base/memory_budget.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/node/decoding/step_decoder.h"
#include "loader/node/internal/current_job.h"
#include "loader/node/internal/training_meter.h"
#include "transport/zmq/server.h"

namespace isocost {

/// The delivering thread's loop: takes microbatches from a job's queue and sends them. A sample
/// whose tensors were not kept is decoded again on a worker, which sends it when it is done.
class DeliveryLoop {
 public:
  struct Context {
    CurrentJob& job;
    Server& server;
    StepDecoder& decoder;
    TrainingMeter& meter;
    std::function<std::string(std::int32_t rank)> name;
    LogSink log;
    /// Time after which ranks that wait for one without a client fail.
    std::chrono::nanoseconds blocked_timeout;
  };
  explicit DeliveryLoop(Context context) : context_(std::move(context)) {}
  /// Blocks until the workers have run its tasks.
  ~DeliveryLoop() ISOCOST_EXCLUDES(mutex_);
  DeliveryLoop(const DeliveryLoop&) = delete;
  DeliveryLoop& operator=(const DeliveryLoop&) = delete;

  /// Delivers until every rank has acknowledged the last epoch. Errors: those of CurrentJob::next;
  /// kUnavailable if only a rank without a client keeps the job from its end; kCancelled while it
  /// waits for memory.
  Status run(std::uint64_t job, const std::stop_token& stop);

  /// Returns the number of samples that were decoded again for sending. Thread-safe.
  std::uint64_t decoded_again() const { return decoded_again_; }

 private:
  Status deliver(const CurrentJob::Outgoing& outgoing, const std::stop_token& stop);
  Status send_sample(const CurrentJob::Outgoing& outgoing, std::uint32_t index,
                     const std::stop_token& stop);
  void send_decoded(const StepPlan& plan, std::size_t receiver, std::uint64_t session,
                    Fragment fragment,
                    const StepDecoder::OrBad<std::shared_ptr<const DecodedSample>>& decoded);
  void fail_blocked_ranks(std::uint64_t job);
  void begin_task() ISOCOST_EXCLUDES(mutex_);
  void end_task() ISOCOST_EXCLUDES(mutex_);

  const Context context_;
  std::set<std::uint64_t> told_;  // sessions that were told of an absent rank
  std::atomic<std::uint64_t> decoded_again_ = 0;
  Mutex mutex_;
  ConditionVariable task_ended_;
  std::size_t tasks_ ISOCOST_GUARDED_BY(mutex_) = 0;  // tasks that have not ended
};

}  // namespace isocost
