#include "transport/protocol/rank_machine.h"

#include <utility>
#include <variant>

#include "transport/protocol/internal/block_losses.h"
#include "transport/protocol/internal/loop_progress.h"
#include "transport/protocol/internal/membership.h"
#include "transport/protocol/internal/prefetch_credit.h"
#include "transport/protocol/internal/reassembly_order.h"

namespace isocost {

struct RankMachine::Parts {
  Parts(const RankOptions& options, Time now)
      : membership(options, now), order(prefetch_limit(options)), credit(options), loop(options) {}

  Membership membership;
  BlockLosses blocks;
  ReassemblyOrder order;
  PrefetchCredit credit;
  LoopProgress loop;
};

RankMachine::RankMachine(const RankOptions& options, Time now)
    : options_(options), parts_(std::make_unique<Parts>(options_, now)) {}

RankMachine::~RankMachine() = default;

std::uint32_t RankMachine::prefetch() const { return prefetch_limit(options_); }

bool RankMachine::is_over() const { return failed_ || parts_->order.last_epoch_ended(); }

Error RankMachine::unanswered(const std::string& why_unreached) const {
  return parts_->membership.unanswered(why_unreached);
}

Hello RankMachine::hello(Time now) {
  parts_->credit.end_session();  // the node ignores credit until it has answered
  return parts_->membership.hello(now, parts_->order.received());
}

void RankMachine::receive(const Message& message, RankActions& actions) {
  if (const auto* welcomed = std::get_if<Welcome>(&message)) {
    welcome(*welcomed, actions);
  } else if (const auto* header = std::get_if<MicrobatchHeader>(&message)) {
    announce(header->position, actions);
  } else if (const auto* end = std::get_if<EpochEnd>(&message)) {
    announce(*end, actions);
  } else if (const auto* refusal = std::get_if<Refusal>(&message)) {
    const Status taken = parts_->membership.take(*refusal, actions);
    if (!taken) fail(taken.error(), actions);
  } else if (const auto* failure = std::get_if<Failure>(&message)) {
    fail(*failure, actions);
  } else if (const auto* notice = std::get_if<Notice>(&message)) {
    actions.emplace_back(LogLine{LogLevel::kWarning, "the node: " + notice->text});
  }
}

void RankMachine::welcome(const Welcome& welcome, RankActions& actions) {
  welcome_ = welcome;
  parts_->order.restart();
  actions.emplace_back(DropIncomplete{});
  actions.emplace_back(LeaveMemory{});
  const std::chrono::milliseconds patience(welcome.heartbeat_ms);
  // Attached before credit is granted, so that blocks serve all of the credit.
  if (parts_->blocks.begin_session(welcome.shared_memory, patience, actions)) {
    actions.emplace_back(AttachMemoryOffered{welcome.shared_memory});
  } else {
    begin_session(actions);
  }
}

void RankMachine::attached(Time now, const Status& result, RankActions& actions) {
  parts_->blocks.attach(now, result, actions);
  begin_session(actions);
}

void RankMachine::begin_session(RankActions& actions) {
  const Status same = parts_->membership.check_process(welcome_);
  if (!same) return fail(same.error(), actions);
  if (parts_->membership.take_silence()) {
    failed_ = false;
    actions.emplace_back(Recover{});
  }
  parts_->loop.acknowledge_again(actions);
  parts_->credit.begin_session(welcome_.session);
  grant_credit(actions);
  parts_->membership.take(welcome_, actions);
}

// One that was received already only returns its credit.
void RankMachine::announce(const Position& position, RankActions& actions) {
  if (parts_->order.is_received(position)) return spend_credit(actions);
  if (failed_) return;
  const Status announced = parts_->order.announce(position, actions);
  if (!announced) fail(announced.error(), actions);
}

void RankMachine::announce(const EpochEnd& end, RankActions& actions) {
  if (failed_) return;  // the epoch is incomplete
  const Status announced = parts_->order.announce(end);
  if (!announced) return fail(announced.error(), actions);
  hand_over(actions);
}

void RankMachine::assembled(const Position& position, const Status& result, RankActions& actions) {
  parts_->order.complete(position, result);
  hand_over(actions);
}

void RankMachine::hand_over(RankActions& actions) {
  std::uint32_t handed = 0;
  const Status done = parts_->order.hand_over(handed, actions);
  for (; handed > 0; --handed) {
    ready_ += 1;
    spend_credit(actions);
  }
  if (!done) fail(done.error(), actions);
}

BlockUse RankMachine::receive_block(const Position& position, RankActions& actions) {
  parts_->blocks.receive();
  if (failed_) return BlockUse::kRelease;
  const auto use = parts_->order.place_block(position);
  if (use) return *use;
  fail(use.error(), actions);
  return BlockUse::kRelease;
}

void RankMachine::lose_memory(Time now, const Error& error, RankActions& actions) {
  if (error.code() != ErrorCode::kUnavailable) return fail(error, actions);
  parts_->blocks.lose(now, error.message());
}

void RankMachine::fail(const Failure& failure, RankActions& actions) {
  const bool draining = failure.code == ErrorCode::kDraining;
  std::optional<Position> resume_point;
  if (failure.has_resume_point) resume_point = failure.resume_point;
  fail(Error(failure.code, (draining ? "the node stops: " : "the node failed: ") + failure.message),
       resume_point, actions);
}

void RankMachine::fail(const Error& error, RankActions& actions) { fail(error, {}, actions); }

// Nothing more is assembled: what is incomplete comes again if the rank recovers.
void RankMachine::fail(const Error& error, const std::optional<Position>& resume_point,
                       RankActions& actions) {
  parts_->membership.answer(error, actions);
  // A node that was silent may say the reason later, after which a welcome mends nothing.
  const bool first = !std::exchange(failed_, true);
  if (!first && !parts_->membership.take_silence()) return;
  actions.emplace_back(Fail{error, resume_point});
  if (!first) return;
  parts_->order.restart();
  actions.emplace_back(DropIncomplete{});
}

void RankMachine::tick(Time now, std::chrono::nanoseconds silence, RankActions& actions) {
  const bool memory_lost = parts_->blocks.needs_session(now);
  if (parts_->membership.needs_hello(now, silence) || memory_lost) {
    actions.emplace_back(JoinAgain{});
  }
  if (!is_over()) {
    const Status heard = parts_->membership.check_silence(silence, actions);
    if (!heard) fail(heard.error(), actions);
  }
  parts_->membership.check_unreached(now, actions);
}

void RankMachine::tell_unreached(const std::string& why, RankActions& actions) {
  parts_->membership.explain(why, actions);
}

void RankMachine::ask(RankActions& actions) {
  if (!options_.prepares_ahead) acknowledge(actions);
}

void RankMachine::end_wait(std::chrono::nanoseconds waited) {
  if (!options_.prepares_ahead) parts_->loop.add_wait(waited);
}

void RankMachine::take(const MicrobatchHeader& header, RankActions& actions) {
  ready_ -= 1;
  grant_credit(actions);
  parts_->loop.take(header);
  if (!options_.prepares_ahead) parts_->loop.begin_use(header.position);
}

void RankMachine::take(const EpochEnd& end) { parts_->loop.take(end); }

void RankMachine::use(const Position& position, std::chrono::nanoseconds waited,
                      RankActions& actions) {
  acknowledge(actions);
  parts_->loop.begin_use(position);
  parts_->loop.add_wait(waited);
}

void RankMachine::acknowledge(RankActions& actions) {
  if (!closed_) parts_->loop.end_use(actions);
}

Status RankMachine::train(const Position& position) { return parts_->loop.train(position); }

void RankMachine::revoke(const Position& position) { parts_->loop.revoke(position); }

Status RankMachine::report(const Report& report, Time now, RankActions& actions) {
  if (closed_) {
    return Error(ErrorCode::kCancelled, "report: the client is closed. Report before close()");
  }
  return parts_->loop.report(report, now, actions);
}

void RankMachine::end_report(Time now) { parts_->loop.end_report(now); }

Status RankMachine::send_profile(ProfileUpdate profile, RankActions& actions) {
  if (closed_) return Error(ErrorCode::kCancelled, "send_profile: the client is closed");
  profile.asked = parts_->loop.asked_for_profile();
  actions.emplace_back(SendMessage{std::move(profile)});
  return {};
}

void RankMachine::close(bool acknowledge_last, RankActions& actions) {
  if (std::exchange(closed_, true)) return;
  // An acknowledgement on a lost connection counts before the rank leaves.
  const bool rejoins = welcome_.session != 0 && !parts_->credit.in_session();
  if (rejoins) parts_->loop.acknowledge_again(actions);
  if (acknowledge_last) parts_->loop.end_last_use(actions);
  actions.emplace_back(SendMessage{Leave{}});
}

// Counts a microbatch that the node sent against credit.
void RankMachine::spend_credit(RankActions& actions) {
  parts_->credit.spend();
  grant_credit(actions);
}

void RankMachine::grant_credit(RankActions& actions) {
  if (const auto credit = parts_->credit.top_up(ready_)) {
    actions.emplace_back(SendMessage{*credit});
  }
}

}  // namespace isocost
