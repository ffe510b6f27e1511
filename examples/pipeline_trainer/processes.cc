#include "examples/pipeline_trainer/processes.h"

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>

namespace isocost {
namespace {

using Clock = std::chrono::steady_clock;

sigset_t events() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&set, signal);
  return set;
}

// Returns the next signal, or 0 after 0.2 s, so that deadlines are checked regularly.
int next_event() {
  const sigset_t set = events();
  const timespec limit{.tv_sec = 0, .tv_nsec = 200'000'000};
  return std::max(0, sigtimedwait(&set, nullptr, &limit));
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return "was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  }
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

void collect_signals() {
  const sigset_t set = events();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void end_with_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent ended before the call above
}

Processes::~Processes() { kill_all(); }

Status Processes::start(const std::string& name, const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));  // NOLINT: posix_spawn does not write
  }
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int failed =
      posix_spawn(&pid, "/proc/self/exe", nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    return Error(ErrorCode::kIo, "cannot start " + name + ": " + std::strerror(failed));
  }
  processes_.push_back({name, pid});
  std::fprintf(stderr, "%s: process %d\n", name.c_str(), pid);
  return {};
}

void Processes::reap(Failure& failure) {
  for (Process& process : processes_) {
    int status = 0;
    if (!process.running || waitpid(process.pid, &status, WNOHANG) != process.pid) continue;
    process.running = false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    const bool killed = WIFSIGNALED(status);
    if (!failure.text.empty() && (failure.killed || !killed)) continue;
    failure = {
        process.name + " (process " + std::to_string(process.pid) + ") " + how_it_ended(status),
        killed};
  }
}

bool Processes::any_running() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const Process& process) { return process.running; });
}

void Processes::signal_all(int signal) {
  for (const Process& process : processes_) {
    if (process.running) kill(process.pid, signal);
  }
}

void Processes::kill_all() {
  signal_all(SIGKILL);
  for (Process& process : processes_) {
    if (process.running) waitpid(process.pid, nullptr, 0);
    process.running = false;
  }
}

Status Processes::wait(std::chrono::milliseconds grace) {
  Failure failure;
  std::optional<Clock::time_point> deadline;
  while (any_running() && (!deadline || Clock::now() < *deadline)) {
    const int event = next_event();
    if (event == SIGINT || event == SIGTERM) {
      stop_signal_ = event;
      break;
    }
    reap(failure);
    if (!failure.text.empty() && !deadline) deadline = Clock::now() + grace;
  }
  for (const Process& process : processes_) {
    if (!process.running || stop_signal_ != 0) continue;
    failure.text += "; " + process.name + " (process " + std::to_string(process.pid) +
                    ") did not end and was killed";
  }
  kill_all();
  if (stop_signal_ != 0) return Error(ErrorCode::kCancelled, "stopped by a signal");
  if (!failure.text.empty()) return Error(ErrorCode::kUnavailable, failure.text);
  return {};
}

}  // namespace isocost
