#include "loader/dataset/names/brace_expansion.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/result.h"

namespace isocost {
namespace {

using Words = std::vector<std::string>;

Error too_many(std::size_t most) {
  return {ErrorCode::kInvalidArgument, fmt::format("its braces stand for over {} names", most)};
}

// Returns the position of the brace that closes the one at `open`; npos: none does.
std::size_t closing(std::string_view text, std::size_t open) {
  std::size_t depth = 0;
  for (std::size_t at = open; at < text.size(); ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return at;
  }
  return std::string_view::npos;
}

// Returns what stands between the commas that are in no braces of their own.
std::vector<std::string_view> alternatives(std::string_view inside) {
  std::vector<std::string_view> found;
  std::size_t depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < inside.size(); ++at) {
    if (inside[at] == '{') ++depth;
    if (inside[at] == '}') --depth;
    if (inside[at] == ',' && depth == 0) {
      found.push_back(inside.substr(begin, at - begin));
      begin = at + 1;
    }
  }
  found.push_back(inside.substr(begin));
  return found;
}

std::optional<std::int64_t> number(std::string_view text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = code == std::errc() && end == text.data() + text.size();
  return is_whole && value > -kMost && value < kMost ? std::optional(value) : std::nullopt;
}

bool is_padded(std::string_view number) {
  const std::size_t first = number.starts_with('-') ? 1 : 0;
  return number.size() > first + 1 && number[first] == '0';
}

// The order in which letters are counted; nothing lies between 'Z' and 'a'.
constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

bool is_letter(std::string_view text) {
  return text.size() == 1 && kLetters.find(text[0]) != std::string_view::npos;
}

// A count such as "{first..last}" or "{first..last..step}".
struct Range {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t step = 1;
  std::size_t width = 0;
  bool counts_letters = false;
};

std::optional<Range> parse_range(std::string_view inside) {
  const std::size_t dots = inside.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view first = inside.substr(0, dots);
  std::string_view last = inside.substr(dots + 2);
  Range range;
  if (const std::size_t more = last.find(".."); more != std::string_view::npos) {
    const auto step = number(last.substr(more + 2));
    if (!step) return std::nullopt;
    range.step = std::max<std::int64_t>(1, *step < 0 ? -*step : *step);
    last = last.substr(0, more);
  }
  if (is_letter(first) && is_letter(last)) {
    range.first = static_cast<std::int64_t>(kLetters.find(first[0]));
    range.last = static_cast<std::int64_t>(kLetters.find(last[0]));
    range.counts_letters = true;
    return range;
  }
  const auto from = number(first);
  const auto to = number(last);
  if (!from || !to) return std::nullopt;
  range.first = *from;
  range.last = *to;
  if (is_padded(first) || is_padded(last)) range.width = std::max(first.size(), last.size());
  return range;
}

std::string counted_word(const Range& range, std::int64_t value) {
  if (range.counts_letters) return std::string(1, kLetters[static_cast<std::size_t>(value)]);
  return fmt::format("{:0{}}", value, range.width);
}

Result<Words> count(const Range& range, std::size_t most) {
  const bool is_rising = range.first <= range.last;
  const std::int64_t span = is_rising ? range.last - range.first : range.first - range.last;
  const std::int64_t words = span / range.step + 1;
  if (std::cmp_greater(words, most)) return too_many(most);
  Words counted;
  counted.reserve(static_cast<std::size_t>(words));
  for (std::int64_t i = 0; i < words; ++i) {
    counted.push_back(counted_word(range, range.first + (is_rising ? i : -i) * range.step));
  }
  return counted;
}

Result<Words> expand(std::string_view text, std::size_t most, int depth);

// Returns the words that a pair of braces stands for, without what is around it.
Result<Words> expand_pair(std::string_view inside, std::size_t most, int depth) {
  const auto parts = alternatives(inside);
  if (parts.size() == 1) {
    if (const auto range = parse_range(inside)) return count(*range, most);
    ISOCOST_ASSIGN(Words words, expand(inside, most, depth + 1));
    for (std::string& word : words) word.insert(0, 1, '{').push_back('}');
    return words;
  }
  Words words;
  for (const std::string_view part : parts) {
    ISOCOST_ASSIGN(Words expanded, expand(part, most, depth + 1));
    if (words.size() + expanded.size() > most) return too_many(most);
    std::ranges::move(expanded, std::back_inserter(words));
  }
  return words;
}

// Appends each of `ends` to each of `words`.
Result<Words> products(const Words& words, const Words& ends, std::size_t most) {
  if (words.size() > most / ends.size()) return too_many(most);
  Words all;
  all.reserve(words.size() * ends.size());
  for (const std::string& word : words) {
    for (const std::string& end : ends) all.push_back(word + end);
  }
  return all;
}

Result<Words> expand(std::string_view text, std::size_t most, int depth) {
  constexpr int kDeepest = 32;
  if (depth > kDeepest) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("its braces stand in each other over {} deep", kDeepest));
  }
  Words words = {""};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t brace = std::min(text.find_first_of("{}", at), text.size());
    for (std::string& word : words) word += text.substr(at, brace - at);
    if (brace == text.size()) break;
    const std::size_t end = text[brace] == '{' ? closing(text, brace) : std::string_view::npos;
    if (end == std::string_view::npos) {
      constexpr std::size_t kShown = 40;
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("the brace at '{}' has no other one", text.substr(brace, kShown)));
    }
    ISOCOST_ASSIGN(const Words pair,
                   expand_pair(text.substr(brace + 1, end - brace - 1), most, depth));
    ISOCOST_ASSIGN(words, products(words, pair, most));
    at = end + 1;
  }
  return words;
}

}  // namespace

Result<Words> expand_braces(std::string_view text, std::size_t most) {
  return expand(text, most, 0);
}

}  // namespace isocost
