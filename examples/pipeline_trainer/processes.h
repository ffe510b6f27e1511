#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Blocks SIGCHLD, SIGINT and SIGTERM, for which Processes waits. Call once, before another thread
/// is started.
void collect_signals();

/// Makes this process end when its parent ends, at once if it already has. Call before anything
/// else.
void end_with_parent(pid_t parent);

/// Copies of this program that run as child processes. The destructor kills those still running.
/// Single-thread: the main thread only.
class Processes {
 public:
  Processes() = default;
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Starts a process; `name` identifies it in messages. Errors: kIo.
  Status start(const std::string& name, const std::vector<std::string>& arguments);

  /// Blocks until all processes have ended. After one fails, the others have `grace` to end and to
  /// print why before they are killed. Errors: kUnavailable, naming the process that failed first
  /// and how it ended; kCancelled if this process received a signal to stop (`stop_signal`).
  Status wait(std::chrono::milliseconds grace);
  /// Returns the signal that ended `wait`; 0: none.
  int stop_signal() const { return stop_signal_; }

 private:
  struct Process {
    std::string name;
    pid_t pid = 0;
    bool running = true;
  };
  /// The first failure. Other processes fail because of it, at times so soon that both are noticed
  /// together; then the one that was killed by a signal is the cause.
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
