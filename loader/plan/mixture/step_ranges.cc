#include "loader/plan/mixture/step_ranges.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>

#include "base/counted.h"

namespace isocost {
namespace {

std::optional<std::uint64_t> step_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  return whole && number <= kLastStep ? std::optional(number) : std::nullopt;
}

Result<StepRange> step_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = step_number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : step_number(text.substr(dash + 1));
  const std::string what = "\"" + std::string(text) + "\"";
  if (!first || !last) {
    return Error(ErrorCode::kInvalidArgument,
                 what +
                     " names no steps: write one step or two with a dash, such as "
                     "\"1200-1210\", up to " +
                     std::to_string(kLastStep));
  }
  if (*last < *first) {
    return Error(ErrorCode::kInvalidArgument, what + " ends before it begins: write \"" +
                                                  std::to_string(*last) + "-" +
                                                  std::to_string(*first) + "\"");
  }
  return StepRange{*first, *last};
}

}  // namespace

Result<SkippedSteps> SkippedSteps::parse(const std::vector<std::string>& texts) {
  if (texts.size() > kMost) {
    return Error(ErrorCode::kInvalidArgument, counted(texts.size(), "range") + ", and at most " +
                                                  std::to_string(kMost) +
                                                  " are allowed: join neighbours");
  }
  std::vector<StepRange> given;
  for (const std::string& text : texts) {
    ISOCOST_ASSIGN(const StepRange range, step_range(text));
    given.push_back(range);
  }
  std::ranges::sort(given, {}, &StepRange::first);
  SkippedSteps skipped;
  for (const StepRange& range : given) {
    auto& ranges = skipped.ranges_;
    if (!ranges.empty() && range.first <= ranges.back().last + 1) {
      ranges.back().last = std::max(ranges.back().last, range.last);
    } else {
      ranges.push_back(range);
    }
  }
  return skipped;
}

std::vector<std::string> SkippedSteps::texts() const {
  std::vector<std::string> texts;
  texts.reserve(ranges_.size());
  for (const auto& [first, last] : ranges_) {
    texts.push_back(std::to_string(first) + (first == last ? "" : "-" + std::to_string(last)));
  }
  return texts;
}

std::uint64_t SkippedSteps::position_of(std::uint64_t step) const {
  std::uint64_t position = step;
  for (const auto& [first, last] : ranges_) {
    if (position < first) break;
    position += last - first + 1;
  }
  return position;
}

std::uint64_t SkippedSteps::steps_before(std::uint64_t positions) const {
  std::uint64_t left_out = 0;
  for (const auto& [first, last] : ranges_) {
    if (first >= positions) break;
    left_out += std::min(last + 1, positions) - first;
  }
  return positions - left_out;
}

std::uint64_t SkippedSteps::first_difference(const SkippedSteps& other, std::uint64_t step) const {
  const auto [own, others] = std::ranges::mismatch(ranges_, other.ranges_);
  if (own == ranges_.end() && others == other.ranges_.end()) return step;
  // The first position that only one of the two leaves out. Ranges do not touch each other.
  std::uint64_t differs = 0;
  if (own == ranges_.end()) {
    differs = others->first;
  } else if (others == other.ranges_.end()) {
    differs = own->first;
  } else {
    differs = own->first == others->first ? std::min(own->last, others->last) + 1
                                          : std::min(own->first, others->first);
  }
  return std::min(step, steps_before(differs));
}

}  // namespace isocost
