#include "examples/pipeline_trainer/processes.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
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

// Makes this process end when its parent ends, at once if it already has.
void end_with_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent ended before the call above
}

void unblock_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Returns the line that the parent sends; empty if it sends none.
std::string read_line(int from) {
  std::string line;
  for (char next = 0; read(from, &next, 1) == 1 && next != '\n';) line += next;
  return line;
}

}  // namespace

void collect_signals() {
  const sigset_t set = events();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Processes::~Processes() {
  kill_all();
  close_sockets();
}

Status Processes::fork(const std::string& name,
                       const std::function<int(const std::string& line)>& work) {
  const auto failed = [&name] {
    return Error(ErrorCode::kIo, "cannot start " + name + ": " + std::strerror(errno));
  };
  std::array<int, 2> ends{};  // of the process, of this one
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return failed();
  const pid_t parent = getpid();
  std::fflush(nullptr);  // or both processes would write what is buffered
  const pid_t pid = ::fork();
  if (pid == 0) {
    end_with_parent(parent);
    unblock_signals();
    const std::string line = read_line(ends[0]);
    std::exit(line.empty() ? 1 : work(line));
  }
  Status status;
  if (pid < 0) status = failed();
  close(ends[0]);
  processes_.push_back({name, pid, ends[1], status.has_value()});
  return status;
}

void Processes::begin(const std::string& line) {
  const std::string sent = line + "\n";
  for (const Process& process : processes_) {
    std::fprintf(stderr, "%s: process %d\n", process.name.c_str(), process.pid);
    static_cast<void>(send(process.to_process, sent.data(), sent.size(), MSG_NOSIGNAL));
  }
}

void Processes::close_sockets() {
  for (const Process& process : processes_) close(process.to_process);
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
