#include "cli/console.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/mutex.h"

namespace isocost::cli {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// What is drawn now, so that equal states are not drawn twice.
struct Bar {
  Mutex mutex;
  int last_permille ISOCOST_GUARDED_BY(mutex) = -1;
  std::string last_what ISOCOST_GUARDED_BY(mutex);
  bool open ISOCOST_GUARDED_BY(mutex) = false;
};

Bar& bar() {
  static Bar the_bar;
  return the_bar;
}

void draw(std::uint64_t done, std::uint64_t total, std::string_view what) {
  constexpr int kWidth = 30;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto permille = static_cast<int>(total == 0 ? 1000 : done * 1000 / total);
  Bar& state = bar();
  const MutexLock lock(state.mutex);
  const bool same = state.last_what == what;
  const int step = terminal ? 5 : 100;
  if (same && permille / step == state.last_permille / step && permille != 1000) return;
  if (same && permille == state.last_permille) return;
  state.last_permille = permille;
  state.last_what = what;
  const int filled = std::clamp(permille * kWidth / 1000, 0, kWidth);
  std::string line(static_cast<std::size_t>(filled), '#');
  line.resize(kWidth, '.');
  std::fprintf(stderr, "%s%.*s [%s] %llu/%llu%s", terminal ? "\r\033[K" : "",
               static_cast<int>(what.size()), what.data(), line.c_str(),
               static_cast<unsigned long long>(done), static_cast<unsigned long long>(total),
               terminal ? "" : "\n");
  state.open = terminal;
}

// A handler, and not sigwait with the signals blocked: libraries start threads before main
// (OpenBLAS does), which would not block them. The handler only writes; a thread reads and may call
// anything.
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
constexpr std::uint64_t kOwnerGoes = std::uint64_t{1} << 32;

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

LogSink console_log(bool verbose) {
  auto logger = spdlog::stderr_color_mt("isocost");
  logger->set_pattern("%H:%M:%S %^%l%$ %v");
  logger->set_level(verbose ? spdlog::level::debug : spdlog::level::info);
  return [logger](LogLevel level, std::string_view text) {
    finish_progress();
    logger->log(spdlog_level(level), text);
  };
}

ProgressSink progress_bar() { return draw; }

void finish_progress() {
  Bar& state = bar();
  const MutexLock lock(state.mutex);
  if (state.open) std::fputc('\n', stderr);
  state.open = false;
}

SignalStop::SignalStop() {
  signals = new SignalThread;
  signal_event = signals->event;
  signals->thread = std::thread([] {
    for (std::uint64_t events = 0; read(signals->event, &events, sizeof(events)) > 0;) {
      if (events % kOwnerGoes >= kStop) signals->stop.request_stop();
      if (events >= kOwnerGoes) return;
    }
  });
  handle_stop_signals(on_stop_signal);
}

SignalStop::~SignalStop() {
  handle_stop_signals(SIG_DFL);
  [[maybe_unused]] const auto written = write(signals->event, &kOwnerGoes, sizeof(kOwnerGoes));
  signals->thread.join();
  close(signals->event);
  delete signals;
  signals = nullptr;
}

std::stop_token SignalStop::token() const { return signals->stop.get_token(); }

Error of_given(const Error& error) {
  const bool theirs =
      error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kUnsupported ||
      error.code() == ErrorCode::kResourceExhausted || error.code() == ErrorCode::kIo;
  return theirs ? Error(ErrorCode::kInvalidArgument, error.message(), error.where()) : error;
}

int report(const Error& error) {
  finish_progress();
  std::fprintf(stderr, "isocost: %s\n", error.message().c_str());
  if (error.code() == ErrorCode::kCancelled && first_signal > 0) return 128 + first_signal;
  const bool mendable = error.code() == ErrorCode::kInvalidArgument ||
                        error.code() == ErrorCode::kNotFound ||
                        error.code() == ErrorCode::kAlreadyExists;
  return mendable ? 2 : 1;
}

int exit_status(const Result<int>& result) { return result ? *result : report(result.error()); }

}  // namespace isocost::cli
