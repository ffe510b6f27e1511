#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Sizes of a model's pictures that take the place of those in its directory, by the keys that the
/// directory's image processor has: {"max_pixels": 1003520}. The families' table says which keys a
/// family takes. Empty: the directory's sizes.
using ImageSize = std::map<std::string, std::int64_t, std::less<>>;

/// Reads KEY=N, with commas between: "max_pixels=1003520,min_pixels=3136". Empty text is an empty
/// size. Errors: kInvalidArgument with what is wrong.
Result<ImageSize> parse_image_size(std::string_view text);

/// Returns the text that parse_image_size reads, with the keys in order.
std::string image_size_text(const ImageSize& size);

}  // namespace isocost
