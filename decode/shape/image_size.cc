#include "decode/shape/image_size.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace isocost {

Result<ImageSize> parse_image_size(std::string_view text) {
  ImageSize size;
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(entry.size() + 1, text.size()));
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string_view digits = entry.substr(std::min(equals + 1, entry.size()));
    std::int64_t value = 0;
    const auto [end, failure] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (equals == 0 || failure != std::errc() || end != digits.data() + digits.size()) {
      return Error(ErrorCode::kInvalidArgument,
                   "'" + std::string(entry) +
                       "' is not KEY=N; give keys of the model's image processor with whole "
                       "numbers, as in max_pixels=1003520");
    }
    if (!size.emplace(entry.substr(0, equals), value).second) {
      return Error(ErrorCode::kInvalidArgument,
                   std::string(entry.substr(0, equals)) + " is given twice; give it once");
    }
  }
  return size;
}

std::string image_size_text(const ImageSize& size) {
  std::string text;
  for (const auto& [key, value] : size) {
    text += (text.empty() ? "" : ",") + key + "=" + std::to_string(value);
  }
  return text;
}

}  // namespace isocost
