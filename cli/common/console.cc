#include "cli/common/console.h"

#include <poll.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string_view>

#include "base/utf8.h"
#include "cli/common/progress_bar.h"

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

// Returns whether a line can be written without waiting: the reader of a pipe may not read, and a
// terminal may be held by Ctrl-S.
bool takes_a_line() {
  pollfd output{STDERR_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) != 0;
}

ProgressBar& bar() {
  static ProgressBar the_bar(isatty(STDERR_FILENO) != 0, [](std::string_view text) {
    if (takes_a_line()) std::fwrite(text.data(), 1, text.size(), stderr);
  });
  return the_bar;
}

}  // namespace

LogSink console_log(bool verbose) {
  auto logger = spdlog::stderr_color_mt("isocost");
  logger->set_pattern("%H:%M:%S %^%l%$ %v");
  logger->set_level(verbose ? spdlog::level::debug : spdlog::level::info);
  const auto lost = std::make_shared<std::atomic<int>>(0);
  return [logger, lost](LogLevel level, std::string_view text) {
    // Lines are dropped, because the logging thread must not wait for a reader.
    if (!takes_a_line()) {
      *lost += 1;
      return;
    }
    finish_progress();
    if (const int count = lost->exchange(0); count > 0) {
      logger->warn("{} lines were lost while nobody read them", count);
    }
    // Names of files and of their parts may have characters that a terminal takes as commands.
    logger->log(spdlog_level(level), printable_utf8(text));
  };
}

ProgressSink progress_bar() {
  return [](std::uint64_t done, std::uint64_t total, std::string_view what) {
    bar().show(done, total, what);
  };
}

void finish_progress() { bar().finish(); }

}  // namespace isocost::cli
