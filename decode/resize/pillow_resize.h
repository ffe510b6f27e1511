#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "decode/resize/pixel_rows.h"
#include "decode/resize/resample_kernels.h"
#include "decode/shape/recipe_options.h"

namespace isocost {

/// Pillow's filters of these names. They reach 1, 2 and 3 positions to each side, multiplied by the
/// factor by which a side shrinks.
enum class ResampleFilter { kBilinear, kBicubic, kLanczos };

/// Options for resizing like a processor.
struct ExactResize {
  ResampleFilter filter = ResampleFilter::kBicubic;
  ResizeOrder order = ResizeOrder::kWidthFirst;
  /// kFast uses coarse weights. Values then differ by at most 2 from the exact ones if no side
  /// shrinks to less than an eighth.
  Exactness exactness = Exactness::kExact;
};

/// A rectangle of pixels within an image.
struct PixelArea {
  std::int32_t x = 0;
  std::int32_t y = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
};

/// Makes `part` of the bytes of Pillow's `Image.resize((to_width, to_height), filter)`, which image
/// processors of vision-language models call, at the cost of that part. Rows are read as they are
/// needed and passed on as they are made, so that they are in the cache. Rows above and below the
/// part's are not read, and `source` may leave out columns beside it. All sides are at least 1.
/// Thread-safe. Allocates as much as `pillow_resize_part_working_set_bytes` says and throws nothing
/// but `bad_alloc`. Errors: those of `source`.
///
/// All `kernels` give the same bytes, and so do all machines, with one reservation: Lanczos weights
/// take the sine of the C library, as Pillow's do. If two libraries differ in a sine's last bit,
/// a weight may, very rarely, be rounded differently.
Status pillow_resize_rows(RowSource& source, std::int32_t to_width, std::int32_t to_height,
                          PixelArea part, ExactResize resize, RowSink& sink,
                          const ResampleKernels& kernels = fastest_kernels());

/// Resizes packed RGB: `rgb` and `into` hold width * height * 3 bytes and part.width * part.height
/// * 3, and do not overlap.
void pillow_resize_part(std::span<const std::uint8_t> rgb, std::int32_t width, std::int32_t height,
                        std::span<std::uint8_t> into, std::int32_t to_width, std::int32_t to_height,
                        PixelArea part, ExactResize resize,
                        const ResampleKernels& kernels = fastest_kernels());
/// Resizes the whole picture.
void pillow_resize(std::span<const std::uint8_t> rgb, std::int32_t width, std::int32_t height,
                   std::span<std::uint8_t> into, std::int32_t to_width, std::int32_t to_height,
                   ExactResize resize, const ResampleKernels& kernels = fastest_kernels());

/// Returns the bytes that `pillow_resize_rows` allocates: weights, and a few rows of one side's new
/// size.
std::int64_t pillow_resize_working_set_bytes(std::int32_t width, std::int32_t height,
                                             std::int32_t to_width, std::int32_t to_height,
                                             ResampleFilter filter, ResizeOrder order);
std::int64_t pillow_resize_part_working_set_bytes(std::int32_t width, std::int32_t height,
                                                  std::int32_t to_width, std::int32_t to_height,
                                                  PixelArea part, ResampleFilter filter,
                                                  ResizeOrder order);

}  // namespace isocost
