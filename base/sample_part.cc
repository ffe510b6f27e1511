#include "base/sample_part.h"

#include <array>

namespace isocost {

std::string_view modality_name(Modality modality) {
  constexpr std::array<std::string_view, kModalities> kNames = {"text", "image", "audio", "video"};
  return kNames.at(static_cast<std::size_t>(modality));
}

}  // namespace isocost
