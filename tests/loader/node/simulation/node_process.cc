#include "tests/loader/node/simulation/node_process.h"

#include <gtest/gtest.h>

#include <utility>
#include <variant>

#include "tests/loader/node/node_support.h"

namespace isocost {
namespace {

NodeOptions options_of_node() {
  NodeOptions options;
  options.data = "shards";
  options.plan.epochs = TrainingData::kEpochs;
  return options;
}

CoordinatorOptions options_of_coordinator() {
  return {7, NodeProcess::kHeartbeat, NodeProcess::kHeartbeatTimeout,
          [](std::int32_t rank) { return "rank " + std::to_string(rank); }};
}

}  // namespace

NodeProcess::NodeProcess(const TrainingData& data, std::int64_t ranks, Network& network, Dice& dice)
    : data_(data),
      network_(network),
      dice_(dice),
      options_(options_of_node()),
      jobs_(JoinRequirements{.options = options_, .receivers = ranks}, kPlanAhead),
      coordinator_(options_of_coordinator()) {
  if (ranks > 0) (void)jobs_.begin(Hello{}, true, nullptr, MonotonicTime());
}

void NodeProcess::receive(MonotonicTime now) {
  const std::string address = network_.any_for_node();
  Message message;
  if (address.empty() || !network_.take_at_node(address, message)) return;
  if (const auto* hello = std::get_if<Hello>(&message)) return answer(address, *hello, now);
  coordinator_.receive(address, message, now, actions_);
  perform(now);
}

void NodeProcess::answer(const std::string& address, const Hello& hello, MonotonicTime now) {
  if (missing_) return;
  while (const std::string* other = coordinator_.depends_on(hello)) {
    const std::string asked = *other;
    if (network_.is_up(asked)) break;
    close(asked, now);
  }
  joining_ = address;
  const JoinRequest request = coordinator_.request(hello, now);
  coordinator_.answer(address, request, decide(request, now), now, actions_);
  perform(now);
}

void NodeProcess::close(const std::string& address, MonotonicTime now) {
  for (Message message; !network_.all_read(address) && network_.take_at_node(address, message);) {
    coordinator_.receive(address, message, now, actions_);
  }
  coordinator_.close(address, actions_);
  perform(now);
}

tl::expected<Welcome, Refusal> NodeProcess::decide(const JoinRequest& request, MonotonicTime now) {
  const bool done = all_done();
  const auto admitted = jobs_.admit(request, nullptr, now);
  if (!admitted) return tl::unexpected(admitted.error());
  using Kind = ServedJobs::Admission::Kind;
  if (admitted->kind == Kind::kBegun || admitted->kind == Kind::kRepeated) {
    observer.begun(admitted->job, done);
  }
  Welcome welcome;
  welcome.ranks = admitted->job.ranks;
  welcome.job = admitted->job.id;
  return welcome;
}

void NodeProcess::perform(MonotonicTime now) {
  for (const CoordinatorAction& action : std::exchange(actions_, {})) {
    if (const auto* event = std::get_if<ClientEvent>(&action)) {
      perform(*event, now);
    } else if (const auto* sent = std::get_if<SendToClient>(&action)) {
      network_.to_rank(sent->address, sent->message);
    } else if (const auto* welcome = std::get_if<WelcomeClient>(&action)) {
      network_.to_rank(welcome->address, Message(welcome->welcome));
    } else if (const auto* refused = std::get_if<RefuseClient>(&action)) {
      network_.to_rank(refused->address, Message(refused->refusal));
    }
  }
}

void NodeProcess::perform(const ClientEvent& event, MonotonicTime now) {
  if (const auto* joined = std::get_if<ClientJoined>(&event)) {
    observer.joined(joining_, *joined, jobs_.terms());
    jobs_.join(*joined);
  } else if (const auto* left = std::get_if<ClientLeft>(&event)) {
    jobs_.leave(left->rank, !left->finished, now);
  } else if (const auto* heard = std::get_if<ClientHeard>(&event)) {
    jobs_.hear(heard->rank, now);
  } else if (const auto* credit = std::get_if<CreditGranted>(&event)) {
    jobs_.grant(credit->rank, credit->microbatches);
  } else if (const auto* done = std::get_if<Acknowledged>(&event)) {
    observer.acknowledged(*done, jobs_.terms().id);
    jobs_.acknowledge(done->rank, done->position);
  }
}

// Plans one step or end of epoch of the present job.
void NodeProcess::plan() {
  if (!jobs_.any() || jobs_.draining()) return;
  const JobTerms job = jobs_.terms();
  if (job.id != planned_job_) {
    planned_job_ = job.id;
    to_plan_.clear();
    next_to_plan_ = 0;
    for (const Item& item : data_.items_from(job.start.epoch, job.start.step)) {
      const auto* position = std::get_if<Position>(&item);
      if (position == nullptr || position->microbatch == 0) to_plan_.push_back(item);
    }
  }
  if (next_to_plan_ == to_plan_.size() || !jobs_.has_room()) return;
  const Item& next = to_plan_[next_to_plan_++];
  if (const auto* end = std::get_if<EpochEnd>(&next)) {
    EXPECT_TRUE(jobs_.push(job.id, *end));
    return;
  }
  const Position& at = std::get<Position>(next);
  EXPECT_TRUE(jobs_.push(job.id, make_step(at.epoch, at.step, static_cast<std::uint32_t>(job.ranks),
                                           data_.microbatches(at.epoch, at.step))));
}

void NodeProcess::deliver(MonotonicTime now, bool may_end) {
  if (!jobs_.any() || finished_ || missing_) return;
  auto next = jobs_.next(delivered_job_);
  if (!next && next.error().code() == ErrorCode::kCancelled) {
    delivered_job_ = jobs_.terms().id;
    told_.clear();
    return;
  }
  if (const auto* outgoing = std::get_if<ServedJobs::Outgoing>(&*next)) {
    outgoing_.push_back(*outgoing);
  } else if (std::holds_alternative<ServedJobs::Finished>(*next)) {
    finished_ = may_end;
  } else {
    missing_ = jobs_.missing_rank(delivered_job_, kHeartbeatTimeout, now);
    if (!missing_) tell_blocked_ranks(now);
  }
}

void NodeProcess::send_queued() {
  for (const ServedJobs::Outgoing& outgoing : std::exchange(outgoing_, {})) {
    const DeliveryQueue::Delivery& delivery = outgoing.delivery;
    const std::string* address = coordinator_.address_of(delivery.rank, outgoing.session);
    if (address == nullptr) continue;
    if (delivery.step == nullptr) {
      network_.to_rank(*address, Message(delivery.end));
      continue;
    }
    MicrobatchHeader header;
    header.position = {delivery.step->epoch, delivery.step->step, delivery.microbatch};
    header.microbatches = delivery.step->plan.microbatches;
    network_.to_rank(*address, Message(header));
    network_.to_rank(*address, Tensors{header.position});
  }
}

void NodeProcess::tell_blocked_ranks(MonotonicTime now) {
  const auto blocked = jobs_.blocked_ranks(delivered_job_, kHeartbeatTimeout, now);
  if (!blocked) return;
  for (const ServedJobs::Waiting& waiting : blocked->waiting) {
    if (!told_.insert(waiting.session).second) continue;
    const std::string* address = coordinator_.address_of(waiting.rank, waiting.session);
    if (address == nullptr) continue;
    network_.to_rank(*address, Message(Refusal{ErrorCode::kUnavailable, "a rank is missing"}));
  }
}

void NodeProcess::tick(MonotonicTime now) {
  coordinator_.tick(now, actions_);
  perform(now);
}

bool NodeProcess::all_done() {
  const UnfinishedRanks left = jobs_.unfinished();
  return jobs_.any() && next_to_plan_ == to_plan_.size() && left.present.empty() &&
         left.absent.empty() && planned_job_ == jobs_.terms().id;
}

std::optional<JobTerms> NodeProcess::job() const {
  if (!jobs_.any()) return std::nullopt;
  return jobs_.terms();
}

bool NodeProcess::holds(std::int32_t rank, const std::string& address) const {
  const std::string* holder = coordinator_.address_of(rank, 0);
  return holder != nullptr && *holder == address;
}

}  // namespace isocost
