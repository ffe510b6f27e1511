// A rank's machine beside a simple node and a network with faults, from many seeds: connections are
// lost with what is under way, messages of an old connection come late, hellos are repeated, Unix
// sockets are lost, and the node is silent. Every microbatch is handed over once and in order, and
// acknowledged once the loop has asked past it.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "transport/protocol/rank_actions.h"
#include "transport/protocol/rank_machine.h"
#include "transport/protocol/rank_options.h"
#include "transport/wire/messages.h"
#include "transport/wire/wire.h"

namespace isocost {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSeeds = 10000;
constexpr std::uint32_t kEpochs = 2;
constexpr std::uint32_t kSteps = 6;         // of an epoch
constexpr std::uint32_t kMicrobatches = 3;  // of a step
constexpr int kFaultyTurns = 2000;          // after these, the network is sound
constexpr int kMostTurns = 20'000;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(engine_() % limit); }
  bool one_in(std::uint32_t chances) { return below(chances) == 0; }

 private:
  std::mt19937_64 engine_;
};

// One thing that the node has for the rank.
using Item = std::variant<Position, EpochEnd>;

std::vector<Item> all_items() {
  std::vector<Item> items;
  for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      for (std::uint32_t at = 0; at < kMicrobatches; ++at)
        items.emplace_back(Position{epoch, step, at});
    }
    items.emplace_back(
        EpochEnd{.epoch = epoch, .steps = kSteps, .last_epoch = epoch + 1 == kEpochs});
  }
  return items;
}

// A message on its way to the rank. Fragments are told by their number alone.
struct ToRank {
  std::variant<Message, std::pair<Position, std::uint32_t>> content;
};

// Keeps the rules of the wire (docs/wire_rules.md) for one rank.
class Node {
 public:
  explicit Node(Dice& dice) : dice_(dice) {}

  void take(const Message& message, int connection) {
    const auto* hello = std::get_if<Hello>(&message);
    if (hello != nullptr && connection >= connection_) {
      join(*hello, connection);
    } else if (connection != connection_) {
      // Nothing counts of an old connection but what is acknowledged.
      if (const auto* done = std::get_if<Acknowledgement>(&message)) acknowledge(done->position);
    } else if (const auto* credit = std::get_if<Credit>(&message)) {
      if (credit->session == session_) credit_ += credit->microbatches;
    } else if (const auto* done = std::get_if<Acknowledgement>(&message)) {
      acknowledge(done->position);
    } else if (std::holds_alternative<Leave>(message)) {
      has_left_ = true;
    }
    send_more();
  }

  // Sends fragments of what was announced, in any order.
  void send_fragments(bool by_block) {
    if (unsent_.empty()) return;
    auto at = unsent_.begin();
    std::advance(at, dice_.below(static_cast<std::uint32_t>(unsent_.size())));
    auto& [position, fragments] = *at;
    const bool untouched = fragments.size() == kFragments;
    if (by_block && untouched && shares_memory_) {
      blocks.push_back(position);
      fragments.clear();
    } else {
      messages.push_back({std::pair(position, fragments.back())});
      fragments.pop_back();
    }
    if (fragments.empty()) unsent_.erase(at);
  }
  void share_memory(bool shares) { shares_memory_ = shares; }

  const std::optional<Position>& acknowledged() const { return acknowledged_; }
  bool has_left() const { return has_left_; }
  int connection() const { return connection_; }

  static constexpr std::uint32_t kFragments = 3;
  std::vector<ToRank> messages;  // sent since the last look
  std::vector<Position> blocks;  // likewise, over the Unix socket

 private:
  void join(const Hello& hello, int connection) {
    if (!welcomed_ && dice_.one_in(3)) {
      messages.push_back({Message(Refusal{ErrorCode::kUnavailable, "a job leaves"})});
      return;
    }
    EXPECT_LE(hello.job, welcomed_ ? 1U : 0U);
    welcomed_ = true;
    connection_ = connection;
    session_ += 1;
    credit_ = 0;
    unsent_.clear();
    shares_memory_ = false;
    // The node has dropped what was acknowledged, so the rank must not ask for it.
    const std::optional<Position> after =
        hello.has_position ? std::optional(hello.position) : acknowledged_;
    EXPECT_TRUE(!acknowledged_ || (after && *acknowledged_ <= *after));
    next_ = 0;
    for (std::size_t i = 0; after && i < items_.size(); ++i) {
      const auto* position = std::get_if<Position>(&items_[i]);
      if (position != nullptr && *position <= *after) next_ = i + 1;
    }
    Welcome welcome;
    welcome.node_id = 1;
    welcome.job = 1;
    welcome.session = session_;
    welcome.heartbeat_ms = 100;
    welcome.heartbeat_timeout_ms = 1000;
    if (dice_.one_in(2)) welcome.shared_memory.socket = "memory";
    messages.push_back({Message(welcome)});
  }

  void acknowledge(const Position& position) {
    if (!acknowledged_ || *acknowledged_ < position) acknowledged_ = position;
  }

  void send_more() {
    for (; next_ < items_.size(); ++next_) {
      if (const auto* end = std::get_if<EpochEnd>(&items_[next_])) {
        messages.push_back({Message(*end)});
        continue;
      }
      if (credit_ == 0) return;
      credit_ -= 1;
      MicrobatchHeader header;
      header.position = std::get<Position>(items_[next_]);
      header.microbatches = kMicrobatches;
      messages.push_back({Message(header)});
      auto& fragments = unsent_[header.position];
      for (std::uint32_t i = 0; i < kFragments; ++i) fragments.push_back(i);
    }
  }

  Dice& dice_;
  const std::vector<Item> items_ = all_items();
  std::size_t next_ = 0;
  int connection_ = 0;
  std::uint64_t session_ = 0;
  std::uint32_t credit_ = 0;
  bool welcomed_ = false;
  bool shares_memory_ = false;
  bool has_left_ = false;
  std::map<Position, std::vector<std::uint32_t>> unsent_;
  std::optional<Position> acknowledged_;
};

RankOptions options_of_a_rank(Dice& dice) {
  RankOptions options;
  options.endpoint = "tcp://node:1";
  options.prefetch = 1 + dice.below(4);
  return options;
}

// A rank with its network and its node, without threads: each turn, one of them does something.
class Job {
 public:
  explicit Job(std::uint64_t seed) : dice_(seed) {}

  void play() {
    for (int turn = 0; !is_done() && turn < kMostTurns; ++turn) {
      sound_ = turn >= kFaultyTurns;
      take_turn();
    }
    EXPECT_TRUE(is_done()) << "it hangs";
  }

  const std::vector<Item>& taken() const { return taken_; }
  const Node& node() const { return node_; }
  int losses() const { return losses_; }
  int failures() const { return failures_; }

 private:
  // One on its way to the node, with the connection that it was sent on.
  struct ToNode {
    Message message;
    int connection = 0;
  };
  struct Incomplete {
    std::set<std::uint32_t> fragments;
  };

  bool is_done() const { return machine_.is_closed() && node_.has_left(); }

  void take_turn() {
    switch (dice_.below(8)) {
      case 0:
        return pass_time();
      case 1:
      case 2:
        return deliver_to_rank();
      case 3:
        return deliver_to_node();
      case 4:
        node_.send_fragments(dice_.one_in(2));
        return collect();
      case 5:
        return deliver_block();
      case 6:
        return loop();
      default:
        return change_connection();
    }
  }

  void pass_time() {
    now_ += std::chrono::milliseconds(dice_.below(sound_ ? 20 : 120));
    if (up_ && (sound_ || !dice_.one_in(3))) heard_ = now_;  // a heartbeat of the node
    apply([&](RankActions& actions) { machine_.tick(now_, now_ - heard_, actions); });
  }

  void change_connection() {
    if (!up_) {
      if (!sound_ && !dice_.one_in(6)) return;
      up_ = true;
      connection_ += 1;
      say_hello();
    } else if (!sound_ && dice_.one_in(8)) {
      lose_connection();
    }
  }

  // Loses all that is under way from some message on. The rest may come late, also after the next
  // connection's first messages to the node.
  void lose_connection() {
    up_ = false;
    losses_ += 1;
    to_rank_.resize(dice_.below(static_cast<std::uint32_t>(to_rank_.size()) + 1));
    to_node_.resize(dice_.below(static_cast<std::uint32_t>(to_node_.size()) + 1));
    late_.insert(late_.end(), to_node_.begin(), to_node_.end());
    to_node_.clear();
  }

  void say_hello() {
    const Hello hello = machine_.hello(now_);
    std::erase_if(waiting_,
                  [](const Message& message) { return std::holds_alternative<Credit>(message); });
    to_node_.push_back({hello, connection_});
    for (const Message& message : std::exchange(waiting_, {})) {
      to_node_.push_back({message, connection_});
    }
  }

  void deliver_to_rank() {
    if (to_rank_.empty()) return;
    const ToRank next = std::move(to_rank_.front());
    to_rank_.pop_front();
    heard_ = now_;
    if (const auto* message = std::get_if<Message>(&next.content)) {
      return apply([&](RankActions& actions) { machine_.receive(*message, actions); });
    }
    const auto& [position, fragment] = std::get<std::pair<Position, std::uint32_t>>(next.content);
    const auto at = incomplete_.find(position);
    if (at == incomplete_.end()) return;
    at->second.fragments.insert(fragment);
    if (at->second.fragments.size() == Node::kFragments) complete(position);
  }

  void complete(const Position& position) {
    incomplete_.erase(position);
    EXPECT_TRUE(complete_.insert(position).second);
    apply([&](RankActions& actions) { machine_.assembled(position, {}, actions); });
  }

  void deliver_to_node() {
    auto& queue = !late_.empty() && (to_node_.empty() || dice_.one_in(2)) ? late_ : to_node_;
    if (queue.empty()) return;
    const ToNode next = std::move(queue.front());
    queue.pop_front();
    node_.take(next.message, next.connection);
    collect();
  }

  // Puts what the node has sent on its way.
  void collect() {
    for (ToRank& message : std::exchange(node_.messages, {})) {
      if (up_ && node_.connection() == connection_) to_rank_.push_back(std::move(message));
    }
    for (const Position& position : std::exchange(node_.blocks, {})) to_memory_.push_back(position);
  }

  void deliver_block() {
    if (!attached_ || to_memory_.empty()) return;
    if (!sound_ && dice_.one_in(20)) {
      leave_memory();
      return apply([&](RankActions& actions) {
        machine_.lose_memory(now_, Error(ErrorCode::kUnavailable, "closed"), actions);
      });
    }
    const Position position = to_memory_.front();
    to_memory_.pop_front();
    BlockUse use = BlockUse::kRelease;
    apply([&](RankActions& actions) { use = machine_.receive_block(position, actions); });
    if (use == BlockUse::kKeep) kept_.insert(position);
    // A block beside fragments would be corrupt.
    if (use == BlockUse::kAssemble && incomplete_.at(position).fragments.empty())
      complete(position);
  }

  void leave_memory() {
    attached_ = false;
    to_memory_.clear();
    node_.share_memory(false);
  }

  // The loop asks for the next microbatch, and uses what it gets until it asks again.
  void loop() {
    if (machine_.is_closed()) return;
    if (in_use_) used_.insert(*in_use_);
    apply([&](RankActions& actions) { machine_.ask(actions); });
    if (ready_.empty()) return close_at_the_end();
    const Item next = ready_.front();
    ready_.pop_front();
    taken_.push_back(next);
    if (const auto* end = std::get_if<EpochEnd>(&next)) return machine_.take(*end);
    MicrobatchHeader header;
    header.position = std::get<Position>(next);
    header.microbatches = kMicrobatches;
    in_use_ = header.position;
    apply([&](RankActions& actions) { machine_.take(header, actions); });
  }

  void close_at_the_end() {
    const auto* end = taken_.empty() ? nullptr : std::get_if<EpochEnd>(&taken_.back());
    if (end == nullptr || !end->last_epoch) return;
    // Nobody repeats a rank's last words, nor an acknowledgement that is lost before its welcome.
    if (!sound_ || !up_ || !to_rank_.empty() || !to_node_.empty()) return;
    apply([&](RankActions& actions) { machine_.close(/*acknowledge_last=*/true, actions); });
  }

  template <typename Event>
  void apply(Event event) {
    RankActions actions;
    event(actions);
    for (const RankAction& action : actions) perform(action);
  }

  void perform(const RankAction& action) {
    if (const auto* sent = std::get_if<SendMessage>(&action)) {
      send(sent->message);
    } else if (std::holds_alternative<JoinAgain>(action)) {
      if (up_) say_hello();
    } else if (std::holds_alternative<LeaveMemory>(action)) {
      leave_memory();
    } else if (std::holds_alternative<AttachMemoryOffered>(action)) {
      attach();
    } else if (const auto* begin = std::get_if<BeginAssembly>(&action)) {
      EXPECT_TRUE(incomplete_.try_emplace(begin->position).second) << "it was begun already";
      EXPECT_EQ(kept_.erase(begin->position) > 0, begin->has_block);
      if (begin->has_block) complete(begin->position);
    } else if (std::holds_alternative<DropIncomplete>(action)) {
      incomplete_.clear();
      complete_.clear();
      kept_.clear();
    } else if (const auto* handed = std::get_if<HandOver>(&action)) {
      hand_over(*handed);
    } else if (const auto* failed = std::get_if<Fail>(&action)) {
      EXPECT_EQ(failed->error.code(), ErrorCode::kUnavailable) << failed->error.message();
      failures_ += 1;
    }
  }

  void send(const Message& message) {
    if (const auto* done = std::get_if<Acknowledgement>(&message)) check(done->position);
    if (up_) {
      to_node_.push_back({message, connection_});
    } else if (!std::holds_alternative<Credit>(message)) {
      waiting_.push_back(message);
    }
  }

  // Checks an acknowledgement: not before the last one, and only of what the loop has asked past.
  void check(const Position& acknowledged) {
    EXPECT_GE(acknowledged, acknowledged_);
    EXPECT_TRUE(used_.contains(acknowledged));
    acknowledged_ = acknowledged;
  }

  void attach() {
    attached_ = sound_ || !dice_.one_in(4);
    node_.share_memory(attached_);
    Status result;
    if (!attached_) result = Error(ErrorCode::kUnavailable, "no descriptor is free");
    apply([&](RankActions& actions) { machine_.attached(now_, result, actions); });
  }

  void hand_over(const HandOver& handed) {
    if (const auto* position = std::get_if<Position>(&handed.next)) {
      EXPECT_EQ(complete_.erase(*position), 1U) << "it is not complete";
    }
    ready_.push_back(handed.next);
  }

  Dice dice_;
  Node node_{dice_};
  RankMachine::Time now_{1h};
  RankMachine::Time heard_ = now_;
  RankMachine machine_{options_of_a_rank(dice_), now_};
  bool sound_ = false;
  bool up_ = false;
  int connection_ = 0;
  int losses_ = 0;
  int failures_ = 0;
  bool attached_ = false;
  std::deque<ToRank> to_rank_;
  std::deque<ToNode> to_node_;
  std::deque<ToNode> late_;  // of lost connections
  std::deque<Position> to_memory_;
  std::vector<Message> waiting_;  // while the connection is down
  std::map<Position, Incomplete> incomplete_;
  std::set<Position> complete_;  // and not handed over
  std::set<Position> kept_;      // blocks that came before their microbatches
  std::deque<Item> ready_;
  std::vector<Item> taken_;
  std::optional<Position> in_use_;
  std::set<Position> used_;  // and asked past
  Position acknowledged_;    // the last one that was sent
};

std::vector<std::string> names_of(const std::vector<Item>& items) {
  std::vector<std::string> names;
  for (const Item& item : items) {
    if (const auto* end = std::get_if<EpochEnd>(&item)) {
      names.push_back("end of " + std::to_string(end->epoch));
    } else {
      const auto& at = std::get<Position>(item);
      names.push_back(std::to_string(at.epoch) + "." + std::to_string(at.step) + "." +
                      std::to_string(at.microbatch));
    }
  }
  return names;
}

TEST(RankSeeds, EveryMicrobatchIsHandedOverOnceAndInOrder) {
  const std::vector<std::string> expected = names_of(all_items());
  int losses = 0;
  int failures = 0;
  for (std::uint64_t seed = 0; seed < kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Job job(seed);
    job.play();
    EXPECT_EQ(names_of(job.taken()), expected);
    EXPECT_EQ(job.node().acknowledged(), (Position{kEpochs - 1, kSteps - 1, kMicrobatches - 1}));
    losses += job.losses();
    failures += job.failures();
  }
  EXPECT_GT(losses, static_cast<int>(kSeeds)) << "the network was too good to test anything";
  EXPECT_GT(failures, 0) << "the node was never silent for long";
}

}  // namespace
}  // namespace isocost
