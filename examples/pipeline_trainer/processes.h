#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"

namespace isocost {

/// SIGCHLD, SIGINT and SIGTERM as events that Processes waits for. Call once, before there is
/// another thread.
void collect_signals();

/// Ends this process with its parent, now where that has gone already. Call first of all.
void end_with_parent(pid_t parent);

/// This program started again, several times over; whatever happens, none of them outlives this.
/// Single-thread, and that the main one.
class Processes {
 public:
  Processes() = default;
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// `name` is for people. Errors: kIo.
  Status start(const std::string& name, const std::vector<std::string>& arguments);

  /// Waits until all have ended well. After the first that did not, the others have `grace` to end
  /// by themselves and say why, before they are killed. Errors: kUnavailable naming the first and
  /// its end; kCancelled where this process was told to stop (`stop_signal`).
  Status wait(std::chrono::milliseconds grace);
  /// That ended `wait`; 0: none.
  int stop_signal() const { return stop_signal_; }

 private:
  struct Process {
    std::string name;
    pid_t pid = 0;
    bool running = true;
  };
  /// What went wrong, and first: others end because one did, at times so soon after it that both
  /// are noticed together; that which was killed is the one that did not end because of others.
  struct Failure {
    std::string text;
    bool killed = false;
  };
  void reap(Failure& failure);
  bool any_running() const;
  void signal_all(int signal);
  void kill_all();

  std::vector<Process> processes_;
  int stop_signal_ = 0;
};

}  // namespace isocost
