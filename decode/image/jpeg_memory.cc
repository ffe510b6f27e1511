#include <cstdint>

#include "base/units.h"
#include "decode/image/image_codecs.h"
#include "decode/image/image_decoder.h"
#include "decode/resize/orientation.h"
#include "decode/resize/resample_kernels.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

// Returns the memory of a JPEG decoder without its pixels.
std::int64_t jpeg_decoder_bytes(const PartShape& shape) {
  const bool exchanged = exchanges_sides(shape.orientation);
  const std::int32_t width = exchanged ? shape.height : shape.width;
  const std::int32_t height = exchanged ? shape.width : shape.height;
  // A progressive file holds all its coefficients of 16 bits, with sides rounded up to blocks;
  // others hold some rows.
  constexpr std::int64_t kBlocks = 32;
  const std::int64_t held = shape.channels * (width + kBlocks) * (height + kBlocks) * 2;
  const std::int64_t rows = (std::int64_t{width} + kBlocks) * 4 * 64;
  // Counts the rows that are read together, and one row with four channels.
  constexpr auto kRows = static_cast<std::int64_t>(kResampleBatch);
  constexpr auto kSlack = static_cast<std::int64_t>(kResampleSlack);
  const std::int64_t read = (std::int64_t{width} * 3 + kSlack) * kRows + std::int64_t{width} * 4;
  return held + rows + read;
}

}  // namespace

std::int64_t jpeg_decoding_bytes(const PartShape& shape, std::int32_t divisor) {
  return jpeg_decoder_bytes(shape) +
         (std::int64_t{shape.width} / divisor + 1) * (std::int64_t{shape.height} / divisor + 1) * 3;
}

std::int64_t jpeg_rows_bytes(const PartShape& shape) {
  return shape.encoded_bytes + kMiB + jpeg_decoder_bytes(shape);
}

}  // namespace isocost
