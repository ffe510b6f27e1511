#include "cli/console.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string_view>

#include "cli/progress_bar.h"

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

ProgressBar& bar() {
  static ProgressBar the_bar(isatty(STDERR_FILENO) != 0, [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
  });
  return the_bar;
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

ProgressSink progress_bar() {
  return [](std::uint64_t done, std::uint64_t total, std::string_view what) {
    bar().show(done, total, what);
  };
}

void finish_progress() { bar().finish(); }

}  // namespace isocost::cli
