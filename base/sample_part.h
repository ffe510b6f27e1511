#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace isocost {

enum class Modality : std::uint8_t { kText = 0, kImage = 1, kAudio = 2, kVideo = 3 };
inline constexpr std::size_t kModalities = 4;

/// Returns "text", "image", "audio" or "video": the name in JSON, reports and Python.
std::string_view modality_name(Modality modality);

/// Description of one part of a sample as the recipe makes it, in the order in which the model sees
/// the parts. Fields that a modality does not have are 0 or empty.
struct SamplePart {
  Modality modality = Modality::kText;
  std::uint32_t rows = 0;     ///< Image, video: rows of the patch grid of a picture.
  std::uint32_t columns = 0;  ///< Image, video: columns of the patch grid of a picture.
  std::uint32_t frames =
      0;  ///< Image: 1, or its tiles. Video: sampled frames. Audio: log-mel frames.
  /// Video: seconds from the start of the video stream at which each frame was sampled, ascending.
  std::vector<double> timestamps_s = {};
  bool operator==(const SamplePart&) const = default;
};

}  // namespace isocost
