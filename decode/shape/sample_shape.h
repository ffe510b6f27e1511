#pragma once

#include <cstdint>
#include <vector>

#include "base/byte_source.h"
#include "base/sample_part.h"
#include "decode/shape/media_formats.h"

namespace isocost {

/// Properties of one part of a sample that its header contains, without decoding pixels or audio.
struct PartShape {
  Modality modality = Modality::kText;
  MediaFormat format = MediaFormat::kUtf8;
  std::uint8_t orientation =
      1;                    ///< EXIF orientation 1..8; width and height are already as displayed.
  std::int32_t width = 0;   ///< Image, video: pixels as displayed.
  std::int32_t height = 0;  ///< Image, video: pixels as displayed.
  std::int32_t sample_rate = 0;  ///< Audio: Hz. Video: numerator of the mean frames a second.
  std::int32_t channels = 0;     ///< Audio. Video: denominator of the mean frames a second. JPEG:
                                 ///< components, where its scans are decoded together
                                 ///< (progressive), which takes their memory. TIFF, HEIC and AVIF:
                                 ///< bytes that their decoders take for each pixel, rounded up.
                                 ///< Other images: 0.
  std::int64_t frames = 0;       ///< Audio: samples per channel. Video: frames that are shown.
  std::int64_t duration_us = 0;  ///< Video: microseconds of the video stream.
  std::int64_t text_bytes = 0;  ///< Text: UTF-8 bytes without a byte order mark. JSON: bytes of its
                                ///< "text" string, 0 without one.
  std::int64_t text_tokens = 0;    ///< Tokens: their number without the placeholders of media.
  std::int64_t label_tokens = 0;   ///< Tokens: number whose prediction counts in the loss.
  bool weighted = false;           ///< Tokens: whether some have a weight in the loss other than 1.
  std::int64_t encoded_bytes = 0;  ///< Size of the archive member.
  bool operator==(const PartShape&) const = default;
};

/// The parts that a model reads, in their order in the shard.
struct SampleShape {
  std::vector<PartShape> parts;
  float weight = 1.0F;  ///< From the sample's JSON ("weight"), finite and >= 0; scales its loss.
  bool operator==(const SampleShape&) const = default;
};

/// The bytes and the shape of one part.
struct PartBytes {
  const PartShape* shape = nullptr;
  const ByteSource* source = nullptr;
};

}  // namespace isocost
