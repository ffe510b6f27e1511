#include "cli/common/signal_stop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <thread>

#include "base/thread_name.h"

namespace isocost::cli {
namespace {

// Receives signals in a handler, not by sigwait with blocked signals: libraries such as OpenBLAS
// start threads before main, and these would not block them. The handler only writes; a thread
// reads, and may call anything.
struct SignalThread {
  int event = eventfd(0, EFD_CLOEXEC);
  std::stop_source stop;
  std::thread thread;
};
SignalThread* signals = nullptr;
std::atomic<int> signal_event = -1;
std::atomic<int> signals_seen = 0;
std::atomic<int> first_signal = 0;

constexpr std::uint64_t kStop = 1;
constexpr std::uint64_t kOwnerLeaves = std::uint64_t{1} << 32;

extern "C" void on_stop_signal(int signal) {
  if (signals_seen.fetch_add(1) > 0) _exit(128 + signal);
  first_signal = signal;
  const int kept_errno = errno;
  [[maybe_unused]] const auto written = write(signal_event, &kStop, sizeof(kStop));
  errno = kept_errno;
}

void handle_stop_signals(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

SignalStop::SignalStop() {
  signals = new SignalThread;
  signal_event = signals->event;
  signals->thread = std::thread([] {
    name_thread("isocost-signal");
    for (std::uint64_t events = 0; read(signals->event, &events, sizeof(events)) > 0;) {
      if (events % kOwnerLeaves >= kStop) signals->stop.request_stop();
      if (events >= kOwnerLeaves) return;
    }
  });
  handle_stop_signals(on_stop_signal);
  // The program does not end when a reader of its output goes away.
  std::signal(SIGPIPE, SIG_IGN);
}

SignalStop::~SignalStop() {
  handle_stop_signals(SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  [[maybe_unused]] const auto written = write(signals->event, &kOwnerLeaves, sizeof(kOwnerLeaves));
  signals->thread.join();
  close(signals->event);
  delete signals;
  signals = nullptr;
}

std::stop_token SignalStop::token() const { return signals->stop.get_token(); }

int first_stop_signal() { return first_signal; }

}  // namespace isocost::cli
