#include "loader/dataset/formats/internal/meta_value.h"

#include <algorithm>
#include <charconv>

namespace isocost {

std::optional<std::int64_t> MetaValue::whole() const {
  constexpr std::size_t kMaxDigits = 18;
  if (kind_ != Kind::kNumber || scalar_.size() > kMaxDigits) return std::nullopt;
  std::int64_t value = 0;
  const char* end = scalar_.data() + scalar_.size();
  const auto parsed = std::from_chars(scalar_.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

const MetaValue* MetaValue::find(std::string_view key) const {
  const auto found = std::ranges::find(members_, key, &Member::first);
  return found == members_.end() ? nullptr : &found->second;
}

}  // namespace isocost
