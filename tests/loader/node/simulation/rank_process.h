#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/loader/node/simulation/network.h"
#include "tests/loader/node/simulation/training_data.h"
#include "transport/protocol/rank_actions.h"
#include "transport/protocol/rank_machine.h"
#include "transport/protocol/rank_options.h"

namespace isocost {

/// A trainer's process: a rank's machine and its training loop.
class RankProcess {
 public:
  using Time = RankMachine::Time;

  RankProcess(std::size_t number, const RankOptions& options, Network& network, Time now);

  // Events.
  void connect(Time now);
  void receive(Time now);
  void tick(Time now);
  /// Its loop continues: what it had is trained, and it takes the next microbatch.
  void loop();
  /// Its loop ends without an error, before the data do.
  void stop();
  void lose_connection();
  void kill();
  void freeze(Time until);
  void thaw(Time now);

  /// Returns whether it runs: it is neither frozen nor over.
  bool runs() const { return !over_ && !frozen_until_; }
  bool is_over() const { return over_; }
  bool was_killed() const { return killed_; }
  /// Returns the error that its loop has got; nothing if there is none.
  const std::optional<Error>& error() const { return error_; }
  /// Returns whether it has trained on everything.
  bool is_done() const { return done_; }
  std::optional<Time> frozen_until() const { return frozen_until_; }
  /// Returns whether more microbatches were ready than it has asked for.
  bool was_overrun() const { return overrun_; }
  /// Returns whether the node has let it in.
  bool was_welcomed() const { return welcomed_; }
  bool is_connected() const { return !address_.empty(); }
  const std::string& address() const { return address_; }
  std::int32_t rank() const { return options_.rank; }
  std::size_t number() const { return number_; }
  /// Returns what its loop took, in this order.
  const std::vector<Item>& taken() const { return taken_; }
  /// Returns the number of those that are trained.
  std::size_t trained() const { return trained_; }

 private:
  template <typename Event>
  void apply(Event event);
  void perform(const RankAction& action, Time now);
  void say_hello(Time now);
  void send(const Message& message);
  void end(bool acknowledge_last);

  const std::size_t number_;
  const RankOptions options_;
  Network& network_;
  RankMachine machine_;
  Time now_;
  Time heard_;
  std::string address_;           // of its connection; empty: it has none
  std::vector<Message> waiting_;  // for a connection
  std::deque<Item> ready_;
  std::vector<Position> incomplete_;
  std::optional<Error> failure_;  // which the loop gets after what is ready
  std::optional<Error> error_;
  std::vector<Item> taken_;
  std::size_t trained_ = 0;
  std::optional<Time> frozen_until_;
  bool overrun_ = false;
  bool welcomed_ = false;
  bool done_ = false;
  bool killed_ = false;
  bool over_ = false;
};

}  // namespace isocost
