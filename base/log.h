#pragma once

#include <functional>
#include <string_view>

namespace isocost {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Where a component's messages go; executables pass one that prints. Called from any thread,
/// possibly several at once; must not throw. An empty function discards. The text is one line,
/// without newline.
using LogSink = std::function<void(LogLevel level, std::string_view text)>;

/// Calls the sink where there is one.
inline void log(const LogSink& sink, LogLevel level, std::string_view text) {
  if (sink) sink(level, text);
}

}  // namespace isocost
