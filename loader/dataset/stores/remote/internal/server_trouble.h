#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "loader/dataset/stores/remote/http_message.h"

namespace isocost {

/// Says when a server's trouble is worth a line in the log: when it begins, and when the server
/// answers again, which is when it has answered without trouble for ten seconds. A server that
/// refuses one request in twenty is in trouble once. Pure; single-thread.
class ServerTrouble {
 public:
  struct Line {
    LogLevel level = LogLevel::kWarning;
    std::string text;
  };

  /// Notes the outcome of an attempt to send the request of this name. Returns the line to log.
  std::optional<Line> note(const Result<HttpResponse>& outcome, std::string_view name,
                           MonotonicTime now);

 private:
  std::optional<Line> note_answer(std::string_view name, MonotonicTime now);

  bool in_trouble_ = false;
  MonotonicTime began_;
  MonotonicTime last_;
};

}  // namespace isocost
