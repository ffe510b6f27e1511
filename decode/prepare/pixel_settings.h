#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "decode/prepare/exact_image.h"
#include "decode/prepare/model_files.h"
#include "decode/resize/pillow_resize.h"

namespace isocost {

/// Settings that the image processors of all families have.
struct PixelSettings {
  std::int64_t resample = 3;  ///< Number of the filter in Pillow.
  // The user's options: ResizeOrder, Exactness, Alpha and Truncated.
  std::int64_t resize_order = 0;
  std::int64_t exactness = 0;
  std::int64_t alpha = 0;
  std::int64_t truncated = 0;
  // Used by the client, which normalises.
  double rescale_factor = 1.0 / 255;
  std::vector<double> image_mean = {0.48145466, 0.4578275, 0.40821073};
  std::vector<double> image_std = {0.26862954, 0.26130258, 0.27577711};

  void take_options(const ModelFiles& files);
  ExactResize resize() const;
  PictureDecoding decoding() const;
};

/// Reads the settings of the image processor, except its class; settings that its file lacks keep
/// their values. Errors: kUnsupported, also for a processor that leaves a step out. `pads_batches`:
/// whether do_pad is on, which for some families means that batches are filled up; nothing if
/// do_pad changes nothing.
Status read_pixels(Settings& settings, PixelSettings& pixels,
                   std::optional<bool> pads_batches = false);

/// A picture's size, or a tile's.
struct PixelSize {
  std::int64_t width = 0;
  std::int64_t height = 0;
  bool operator==(const PixelSize&) const = default;
};
constexpr std::int64_t kMostSide = std::int64_t{1} << 14;
constexpr std::int64_t kMostTiles = 256;  ///< Tiles of one picture.

/// Reads {"height": ..., "width": ...}; `otherwise` if there is no such key. Errors:
/// kUnsupported.
Result<PixelSize> read_size(Settings& settings, const char* key, PixelSize otherwise);

}  // namespace isocost
