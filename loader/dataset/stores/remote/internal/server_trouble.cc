#include "loader/dataset/stores/remote/internal/server_trouble.h"

#include <fmt/format.h>

#include <chrono>

#include "loader/dataset/stores/remote/internal/retry_rule.h"

namespace isocost {
namespace {

constexpr std::chrono::seconds kQuiet(10);

std::string trouble_text(const Result<HttpResponse>& outcome, std::string_view name) {
  constexpr std::string_view kNext = "requests are repeated with pauses";
  if (!outcome) return fmt::format("{}; {}", outcome.error().message(), kNext);
  if (asks_to_wait(outcome)) {
    return fmt::format("{}: the server asks to send less (status {}); {}, and fewer at once", name,
                       outcome->status, kNext);
  }
  return fmt::format("{}: the server cannot answer (status {}); {}", name, outcome->status, kNext);
}

}  // namespace

std::optional<ServerTrouble::Line> ServerTrouble::note(const Result<HttpResponse>& outcome,
                                                       std::string_view name, MonotonicTime now) {
  if (!may_pass(outcome)) return outcome ? note_answer(name, now) : std::nullopt;
  last_ = now;
  if (in_trouble_) return std::nullopt;
  in_trouble_ = true;
  began_ = now;
  return Line{LogLevel::kWarning, trouble_text(outcome, name)};
}

std::optional<ServerTrouble::Line> ServerTrouble::note_answer(std::string_view name,
                                                              MonotonicTime now) {
  if (!in_trouble_ || now - last_ < kQuiet) return std::nullopt;
  in_trouble_ = false;
  return Line{LogLevel::kInfo, fmt::format("{}: the server answers again, {:.0f} s after it began "
                                           "to refuse requests",
                                           name, seconds_between(began_, last_))};
}

}  // namespace isocost
