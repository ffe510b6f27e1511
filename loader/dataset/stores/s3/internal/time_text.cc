#include "loader/dataset/stores/s3/internal/time_text.h"

#include <fmt/format.h>

#include <cstddef>

namespace isocost {
namespace {

using std::chrono::sys_seconds;

// Takes texts off the front of another; once something is missing, all later answers are useless.
class Scan {
 public:
  explicit Scan(std::string_view text) : rest_(text) {}

  int digits(std::size_t count) {
    int value = 0;
    const std::string_view text = take(count);
    for (const char c : text) {
      if (c < '0' || c > '9') good_ = false;
      value = value * 10 + (c - '0');
    }
    return value;
  }
  void expect(std::string_view text) {
    if (take(text.size()) != text) good_ = false;
  }
  std::string_view take(std::size_t count) {
    if (rest_.size() < count) good_ = false;
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  bool begins_with(char c) const { return rest_.starts_with(c); }
  bool at_digit() const { return !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; }
  bool is_over() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

struct Moment {
  int year, month, day, hour, minute, second;
};

// A leap second counts as the one after it.
std::optional<sys_seconds> seconds_of(const Moment& at) {
  const std::chrono::year_month_day date{std::chrono::year(at.year),
                                         std::chrono::month(static_cast<unsigned>(at.month)),
                                         std::chrono::day(static_cast<unsigned>(at.day))};
  if (!date.ok() || at.hour > 23 || at.minute > 59 || at.second > 60) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(at.hour) +
         std::chrono::minutes(at.minute) + std::chrono::seconds(at.second);
}

std::chrono::minutes read_offset(Scan& scan) {
  if (!scan.begins_with('+') && !scan.begins_with('-')) {
    scan.expect("Z");
    return {};
  }
  const int sign = scan.take(1) == "-" ? -1 : 1;
  const int hours = scan.digits(2);
  if (scan.begins_with(':')) scan.expect(":");
  return sign * std::chrono::minutes(hours * 60 + scan.digits(2));
}

}  // namespace

std::string basic_iso8601(sys_seconds time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

std::optional<sys_seconds> parse_iso8601(std::string_view text) {
  Scan scan(text);
  Moment at{};
  at.year = scan.digits(4);
  scan.expect("-");
  at.month = scan.digits(2);
  scan.expect("-");
  at.day = scan.digits(2);
  scan.expect("T");
  at.hour = scan.digits(2);
  scan.expect(":");
  at.minute = scan.digits(2);
  scan.expect(":");
  at.second = scan.digits(2);
  if (scan.begins_with('.')) {
    scan.expect(".");
    while (scan.at_digit()) scan.take(1);
  }
  const std::chrono::minutes offset = read_offset(scan);
  const std::optional<sys_seconds> time = seconds_of(at);
  if (!scan.is_over() || !time) return std::nullopt;
  return *time - offset;
}

}  // namespace isocost
