#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Blocks SIGCHLD, SIGINT and SIGTERM, for which Processes waits. Call once, before another thread
/// is started.
void collect_signals();

/// Child processes, forked from this one: libtorch takes 0.4 s to load, and none of them loads it
/// again. They end when this process ends. The destructor kills those still running. Single-thread:
/// the main thread only.
class Processes {
 public:
  Processes() = default;
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Forks a process that waits for `begin`; `name` identifies it in messages. Call it before
  /// this process starts a thread, since a forked process has none of them. `work` is called with
  /// the line of `begin` and returns the exit status. Errors: kIo.
  Status fork(const std::string& name, const std::function<int(const std::string& line)>& work);
  /// Lets all forked processes begin. If one has ended already, `wait` reports it.
  void begin(const std::string& line);

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
    int to_process = -1;  // socket for the line of `begin`
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
  void close_sockets();

  std::vector<Process> processes_;
  int stop_signal_ = 0;
};

}  // namespace isocost
