#include "cli/console.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

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

// The state on the screen, so that an equal one is not drawn again.
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

}  // namespace isocost::cli
