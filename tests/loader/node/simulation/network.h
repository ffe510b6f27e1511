#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "tests/loader/node/simulation/dice.h"
#include "transport/wire/messages.h"
#include "transport/wire/wire.h"

namespace isocost {

/// The tensors of a microbatch, which follow its announcement.
struct Tensors {
  Position of;
};

/// Connections between processes and their node. Each keeps the order of its messages, but nothing
/// holds across connections. A connection that is lost loses what is under way from some message
/// on; what came before is still read, as late as the reader likes.
class Network {
 public:
  using ToRank = std::variant<Message, Tensors>;

  explicit Network(Dice& dice) : dice_(dice) {}

  /// Opens a connection of a process. Returns its address, never used again.
  std::string connect(std::size_t process) {
    const std::string address = std::to_string(++opened_);
    connections_[address] = {.process = process, .to_node = {}, .to_rank = {}};
    open_.push_back(address);
    return address;
  }
  void lose(const std::string& address) {
    Connection& connection = connections_.at(address);
    connection.up = false;
    connection.to_rank.clear();
    auto& sent = connection.to_node;
    const std::size_t arrives = dice_.below(sent.size() + 1);
    for (std::size_t i = arrives; i < sent.size(); ++i) {
      if (!std::holds_alternative<Heartbeat>(sent[i])) lost_[connection.process] = true;
    }
    sent.resize(arrives);
  }
  /// Closes a connection whose process ends: what it has sent arrives.
  void close(const std::string& address) {
    connections_.at(address).up = false;
    connections_.at(address).to_rank.clear();
  }
  bool is_up(const std::string& address) const {
    const auto found = connections_.find(address);
    return found != connections_.end() && found->second.up;
  }
  /// Notes that a process ended before it could send what it had to say.
  void lose_words_of(std::size_t process) { lost_[process] = true; }
  /// Returns whether something that the process said was lost.
  bool lost_words_of(std::size_t process) const { return lost_.contains(process); }
  std::size_t process_of(const std::string& address) const {
    return connections_.at(address).process;
  }

  void to_node(const std::string& address, Message message) {
    if (is_up(address)) connections_.at(address).to_node.push_back(std::move(message));
  }
  void to_rank(const std::string& address, ToRank message) {
    if (is_up(address)) connections_.at(address).to_rank.push_back(std::move(message));
  }

  /// Holds what is under way on a connection, in both directions, until some time.
  void stall(const std::string& address, MonotonicTime until) {
    connections_.at(address).stalled_until = until;
  }
  void pass_time(MonotonicTime now) { now_ = now; }

  /// Takes the next message of a connection; false: there is none.
  bool take_at_node(const std::string& address, Message& message) {
    auto& queue = connections_.at(address).to_node;
    if (queue.empty()) return false;
    message = std::move(queue.front());
    queue.pop_front();
    return true;
  }
  bool take_at_rank(const std::string& address, ToRank& message) {
    if (!has_for_rank(address)) return false;
    auto& queue = connections_.at(address).to_rank;
    message = std::move(queue.front());
    queue.pop_front();
    return true;
  }
  bool has_for_rank(const std::string& address) const {
    const Connection& connection = connections_.at(address);
    return !connection.to_rank.empty() && connection.stalled_until <= now_;
  }
  bool all_read(const std::string& address) const {
    const auto found = connections_.find(address);
    return found == connections_.end() || found->second.to_node.empty();
  }

  /// Returns a connection with something for the node; empty: there is none.
  std::string any_for_node() {
    std::vector<const std::string*> waiting;
    std::erase_if(open_, [this](const std::string& address) {
      const Connection& connection = connections_.at(address);
      return !connection.up && connection.to_node.empty();
    });
    for (const std::string& address : open_) {
      const Connection& connection = connections_.at(address);
      const bool stalls = connection.up && connection.stalled_until > now_;
      if (!connection.to_node.empty() && !stalls) waiting.push_back(&address);
    }
    return waiting.empty() ? "" : *waiting[dice_.below(waiting.size())];
  }

 private:
  struct Connection {
    std::size_t process = 0;
    bool up = true;
    MonotonicTime stalled_until = {};
    std::deque<Message> to_node;
    std::deque<ToRank> to_rank;
  };
  Dice& dice_;
  std::map<std::string, Connection> connections_;
  std::vector<std::string> open_;  // of those that are up or not read to their end
  std::map<std::size_t, bool> lost_;
  std::size_t opened_ = 0;
  MonotonicTime now_;
};

}  // namespace isocost
