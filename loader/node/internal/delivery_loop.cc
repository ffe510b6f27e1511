#include "loader/node/internal/delivery_loop.h"

#include <utility>
#include <variant>

#include "loader/node/internal/microbatch_header.h"
#include "loader/node/internal/read_again.h"

namespace isocost {
namespace {

// Samples between two looks at those that come, since each look asks for their index.
constexpr std::uint32_t kStride = 8;

}  // namespace

DeliveryLoop::~DeliveryLoop() {
  const MutexLock lock(mutex_);
  task_ended_.wait(mutex_, [this]() ISOCOST_REQUIRES(mutex_) { return tasks_ == 0; });
}

Status DeliveryLoop::run(std::uint64_t job, const std::stop_token& stop) {
  const std::chrono::nanoseconds between_checks = context_.blocked_timeout / 4;
  for (;;) {
    ISOCOST_ASSIGN(const CurrentJob::Next next, context_.job.next(job, between_checks, stop));
    if (std::holds_alternative<CurrentJob::Finished>(next)) return {};
    if (const auto* outgoing = std::get_if<CurrentJob::Outgoing>(&next)) {
      ISOCOST_TRY(deliver(*outgoing, stop));
    } else if (const auto missing = context_.job.missing_rank(job, context_.blocked_timeout)) {
      return Error(ErrorCode::kUnavailable,
                   context_.name(*missing) +
                       " has left before it had trained on everything, and no other rank waits");
    } else {
      fail_blocked_ranks(job);
    }
  }
}

Status DeliveryLoop::deliver(const CurrentJob::Outgoing& outgoing, const std::stop_token& stop) {
  const DeliveryQueue::Delivery& delivery = outgoing.delivery;
  if (delivery.step == nullptr) {
    context_.server.epoch_end(delivery.rank, delivery.end, outgoing.session);
    return {};
  }
  const SealedStep& step = *delivery.step;
  const auto receiver = static_cast<std::size_t>(delivery.rank);
  context_.server.begin(delivery.rank, header_of(step, receiver, delivery.microbatch),
                        outgoing.session);
  context_.meter.sent(step, receiver, delivery.microbatch);
  const PlannedMicrobatch& bin = step.plan.microbatch_of(receiver, delivery.microbatch);
  std::uint32_t index = 0;
  for (; index < bin.samples.size(); ++index) {
    if (index % kStride == 0) {
      read_again_from({receiver, delivery.microbatch, index}, *delivery.step,
                      delivery.following.get(), context_.decoder);
    }
    ISOCOST_TRY(send_sample(outgoing, index, stop));
  }
  const Position position{step.epoch, step.step, delivery.microbatch};
  for (const std::uint32_t dummy : bin.dummies) {
    const auto& decoded = step.dummies[dummy].decoded;  // kept by the node
    context_.server.fragment(delivery.rank,
                             {position, index++, consumed(step.plan, receiver, decoded->tensors)},
                             decoded, outgoing.session);
  }
  return {};
}

// Sends the sample at an index of the microbatch.
Status DeliveryLoop::send_sample(const CurrentJob::Outgoing& outgoing, std::uint32_t index,
                                 const std::stop_token& stop) {
  const DeliveryQueue::Delivery& delivery = outgoing.delivery;
  SealedStep& step = *delivery.step;
  const auto receiver = static_cast<std::size_t>(delivery.rank);
  const PlannedMicrobatch& bin = step.plan.microbatch_of(receiver, delivery.microbatch);
  const Position position{step.epoch, step.step, delivery.microbatch};
  StepSample& sample = step.samples[bin.samples[index].index];
  if (const auto decoded = sample.decoded) {
    if (sample.readers <= 1)
      sample.decoded = nullptr;  // a receiver that reconnected has read it twice
    sample.readers -= 1;
    context_.server.fragment(delivery.rank,
                             {position, index, consumed(step.plan, receiver, decoded->tensors)},
                             decoded, outgoing.session);
    return {};
  }
  ISOCOST_ASSIGN(MemoryBudget::Grant grant, context_.decoder.admit(sample.id, stop));
  auto shared = std::make_shared<MemoryBudget::Grant>(std::move(grant));
  const std::shared_ptr<SampleRead> read = sample.read;
  if (sample.readers <= 1) sample.read = nullptr;
  if (sample.readers > 1) sample.readers -= 1;
  begin_task();
  context_.decoder.submit([this, step = delivery.step, receiver, session = outgoing.session,
                           position, index, id = sample.id, read, shared, stop] {
    auto decoded = context_.decoder.decode(id, read, std::move(*shared), stop);
    if (decoded) {
      send_decoded(step->plan, receiver, session, {position, index, {}}, *decoded);
    } else {
      context_.job.fail(std::move(decoded).error());
    }
    end_task();
  });
  return {};
}

void DeliveryLoop::send_decoded(
    const StepPlan& plan, std::size_t receiver, std::uint64_t session, Fragment fragment,
    const StepDecoder::OrBad<std::shared_ptr<const DecodedSample>>& decoded) {
  if (!decoded) {
    context_.job.fail(Error(ErrorCode::kCorrupt,
                            "a sample that was good is bad when it is "
                            "decoded again: " +
                                describe(decoded.error())));
    return;
  }
  fragment.tensors = consumed(plan, receiver, (*decoded)->tensors);
  decoded_again_ += 1;
  context_.server.fragment(static_cast<std::int32_t>(receiver), std::move(fragment), *decoded,
                           session);
}

// Tells ranks that wait for one without a client. Planning waits for the slowest rank, so they
// would wait forever. Once they know, all can start again together.
void DeliveryLoop::fail_blocked_ranks(std::uint64_t job) {
  const auto blocked = context_.job.blocked_ranks(job, context_.blocked_timeout);
  if (!blocked) return;
  const Refusal refusal{
      ErrorCode::kUnavailable,
      context_.name(blocked->absent) + (blocked->joined_before ? " has left" : " never joined") +
          ", and no data can follow without it: start all ranks again from the last saved state"};
  bool first = true;
  for (const CurrentJob::Waiting& waiting : blocked->waiting) {
    if (!told_.insert(waiting.session).second) continue;
    if (std::exchange(first, false)) log(context_.log, LogLevel::kWarning, refusal.message);
    context_.server.refuse(waiting.rank, refusal, waiting.session);
  }
}

void DeliveryLoop::begin_task() {
  const MutexLock lock(mutex_);
  ++tasks_;
}

void DeliveryLoop::end_task() {
  const MutexLock lock(mutex_);
  --tasks_;
  task_ended_.notify_all();
}

}  // namespace isocost
