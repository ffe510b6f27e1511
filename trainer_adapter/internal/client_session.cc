#include "trainer_adapter/internal/client_session.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "base/log.h"
#include "transport/protocol/rank_machine.h"

namespace isocost {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

ClientSession::ClientSession(const ClientOptions& options, Connection& connection,
                             HandOut& hand_out, Assembler& assembler)
    : options_(options), connection_(connection), hand_out_(hand_out), assembler_(assembler) {}

Result<Welcome> ClientSession::join(const std::stop_token& stop) {
  ConnectionHandlers handlers;
  handlers.hello = [this] { return hello(); };
  handlers.on_message = [this](Message message,
                               std::span<const std::span<const std::byte>> frames) {
    on_message(std::move(message), frames);
  };
  handlers.on_error = [this](const Error& error) { fail(error); };
  handlers.on_tick = [this](std::chrono::nanoseconds silence) { on_tick(silence); };
  handlers.descriptor = [this] { return blocks_ == nullptr ? -1 : blocks_->descriptor(); };
  handlers.on_readable = [this] { receive_blocks(); };
  ISOCOST_TRY(connection_.start(std::move(handlers)));
  {
    const MutexLock lock(mutex_);
    answered_.wait_for(mutex_, stop, options_.connect_timeout,
                       [this]() ISOCOST_REQUIRES(mutex_) { return answer_.has_value(); });
    if (answer_) return *answer_;
  }
  if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "connecting was stopped");
  return hand_out_.unanswered(connection_.why_unreached());
}

void ClientSession::leave(bool acknowledge_last) {
  hand_out_.close(acknowledge_last);
  connection_.stop();
}

// Tells the machine of an event, and performs what it asks for.
template <typename Event>
void ClientSession::apply(Event event) {
  perform(hand_out_.apply(std::move(event)));
}

Hello ClientSession::hello() {
  Hello hello;
  apply([&](RankMachine& machine, RankActions&) { hello = machine.hello(Clock::now()); });
  return hello;
}

void ClientSession::on_message(Message message,
                               std::span<const std::span<const std::byte>> frames) {
  if (const auto* fragment = std::get_if<FragmentHeader>(&message)) {
    return complete(assembler_.add(*fragment, frames));
  }
  const RankActions actions = hand_out_.apply(
      [&](RankMachine& machine, RankActions& asked) { machine.receive(message, asked); });
  for (const RankAction& action : actions) {
    if (const auto* begin = std::get_if<BeginAssembly>(&action)) {
      auto& header = std::get<MicrobatchHeader>(message);
      complete(assembler_.begin(std::move(header), begin->has_block));
    } else {
      perform(action);
    }
  }
}

// Receives blocks, at most as many as the node has credit for, so that a flood does not keep this
// thread from other work.
void ClientSession::receive_blocks() {
  if (blocks_ == nullptr) return;
  const std::uint32_t most = hand_out_.prefetch();
  for (std::uint32_t i = 0; i < most && blocks_ != nullptr; ++i) {
    auto received = blocks_->receive();
    if (received) {
      auto block = *std::move(received);
      if (!block) return;
      take(*std::move(block));
    } else {
      blocks_ = nullptr;
      apply([&](RankMachine& machine, RankActions& actions) {
        machine.lose_memory(Clock::now(), received.error(), actions);
      });
    }
  }
}

void ClientSession::take(BlockReceiver::Delivered block) {
  BlockUse use = BlockUse::kRelease;
  apply([&](RankMachine& machine, RankActions& actions) {
    use = machine.receive_block(block.position, actions);
  });
  if (use == BlockUse::kAssemble) {
    complete(assembler_.add(block));
  } else if (use == BlockUse::kKeep) {
    assembler_.keep(std::move(block));
  }
}

// Passes on what was assembled, or fails.
void ClientSession::complete(Assembled&& assembled) {
  if (!assembled) return fail(assembled.error());
  std::optional<Assembler::Assembled>& done = *assembled;
  if (done) perform(hand_out_.complete(done->position, std::move(done->microbatch)));
}

void ClientSession::on_tick(std::chrono::nanoseconds silence) {
  receive_blocks();
  if (const auto why_not = assembler_.take_pin_failure()) {
    log(options_.log, LogLevel::kInfo,
        "shared memory is not registered with CUDA, so copies to a device need staging: " +
            *why_not);
  }
  apply([&](RankMachine& machine, RankActions& actions) {
    machine.tick(Clock::now(), silence, actions);
  });
}

void ClientSession::fail(const Error& error) {
  apply([&](RankMachine& machine, RankActions& actions) { machine.fail(error, actions); });
}

void ClientSession::perform(const RankActions& actions) {
  for (const RankAction& action : actions) perform(action);
}

void ClientSession::perform(const RankAction& action) {
  if (std::holds_alternative<JoinAgain>(action)) {
    connection_.join_again();
  } else if (const auto* heartbeat = std::get_if<SetHeartbeat>(&action)) {
    connection_.set_heartbeat(heartbeat->interval);
  } else if (std::holds_alternative<DropIncomplete>(action)) {
    assembler_.drop();
  } else if (std::holds_alternative<LeaveMemory>(action)) {
    blocks_ = nullptr;
  } else if (const auto* offered = std::get_if<AttachMemoryOffered>(&action)) {
    attach(offered->offer);
  } else if (const auto* answer = std::get_if<Answer>(&action)) {
    set_answer(answer->answer);
  } else if (std::holds_alternative<ExplainUnreached>(action)) {
    const std::string why = connection_.why_unreached();
    apply([&](RankMachine& machine, RankActions& more) { machine.tell_unreached(why, more); });
  } else if (const auto* line = std::get_if<LogLine>(&action)) {
    log(options_.log, line->level, line->text);
  }
}

void ClientSession::attach(const SharedMemoryOffer& offer) {
  auto attached = BlockReceiver::attach(offer);
  Status result;
  if (attached) {
    blocks_ = *std::move(attached);
  } else {
    result = attached.error();
  }
  apply([&](RankMachine& machine, RankActions& actions) {
    machine.attached(Clock::now(), result, actions);
  });
}

// Ends `join`.
void ClientSession::set_answer(Result<Welcome> answer) {
  const MutexLock lock(mutex_);
  answer_ = std::move(answer);
  answered_.notify_all();
}

}  // namespace isocost
