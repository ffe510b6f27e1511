#include "loader/dataset/count_or_share.h"

#include <charconv>
#include <string>

namespace isocost {

Result<CountOrShare> CountOrShare::parse(std::string_view option, std::string_view text) {
  const bool share = text.ends_with('%');
  const std::string_view digits = share ? text.substr(0, text.size() - 1) : text;
  double number = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = code == std::errc() && end == digits.data() + digits.size() && !digits.empty();
  if (!whole || !(number >= 0 && number < 1e18) || (share && number > 100)) {
    return Error(ErrorCode::kInvalidArgument,
                 std::string(option) + ": '" + std::string(text) +
                     "' is neither a count nor a percentage (0% to 100%)");
  }
  if (share && number > 0) return CountOrShare{std::nullopt, number / 100};
  return CountOrShare{static_cast<std::uint64_t>(number), 0};
}

}  // namespace isocost
