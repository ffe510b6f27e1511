#pragma once

#include <functional>
#include <string_view>

namespace isocost {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Receives a component's messages; programs pass a sink that prints them. It is called from any
/// thread, possibly several at once, and must not throw. An empty function discards messages.
/// `text` is one line without newline.
using LogSink = std::function<void(LogLevel level, std::string_view text)>;

/// Calls the sink if it is not empty.
inline void log(const LogSink& sink, LogLevel level, std::string_view text) {
  if (sink) sink(level, text);
}

}  // namespace isocost
