#include "decode/prepare/pixel_settings.h"

#include <optional>

namespace isocost {

void PixelSettings::take_options(const ModelFiles& files) {
  resize_order = static_cast<std::int64_t>(files.order);
  exactness = static_cast<std::int64_t>(files.exactness);
  alpha = static_cast<std::int64_t>(files.alpha);
  truncated = static_cast<std::int64_t>(files.truncated);
}

PictureDecoding PixelSettings::decoding() const {
  return {static_cast<Exactness>(exactness), static_cast<Alpha>(alpha),
          static_cast<Truncated>(truncated)};
}

ExactResize PixelSettings::resize() const {
  const auto order = static_cast<ResizeOrder>(resize_order);
  if (resample == 1) return {ResampleFilter::kLanczos, order};
  return {resample == 2 ? ResampleFilter::kBilinear : ResampleFilter::kBicubic, order};
}

Status read_pixels(Settings& settings, PixelSettings& pixels, std::optional<bool> pads_batches) {
  ISOCOST_ASSIGN(pixels.resample, settings.integer("resample", 1, 3, pixels.resample));
  ISOCOST_ASSIGN(pixels.rescale_factor, settings.number("rescale_factor", pixels.rescale_factor));
  ISOCOST_ASSIGN(pixels.image_mean, settings.numbers("image_mean", pixels.image_mean));
  ISOCOST_ASSIGN(pixels.image_std, settings.numbers("image_std", pixels.image_std));
  for (const char* step : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"}) {
    ISOCOST_TRY(settings.only(step, true));
  }
  if (pads_batches) {
    ISOCOST_TRY(settings.only("do_pad", *pads_batches));
  } else {
    settings.ignore({"do_pad"});
  }
  ISOCOST_TRY(settings.only("data_format", "channels_first"));
  // These settings name classes, or concern the processor's own way of computing.
  settings.ignore({"processor_class", "feature_extractor_type", "default_to_square", "device",
                   "disable_grouping", "return_tensors", "input_data_format", "backend"});
  return {};
}

Result<PixelSize> read_size(Settings& settings, const char* key, PixelSize otherwise) {
  if (!settings.has(key)) {
    settings.ignore({key});
    return otherwise;
  }
  ISOCOST_ASSIGN(Settings size, settings.object(key));
  ISOCOST_ASSIGN(const std::int64_t width, size.integer("width", 1, kMostSide));
  ISOCOST_ASSIGN(const std::int64_t height, size.integer("height", 1, kMostSide));
  ISOCOST_TRY(size.check_all_asked());
  return PixelSize{width, height};
}

}  // namespace isocost
