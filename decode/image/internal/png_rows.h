#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/resize/simd_target.h"

namespace isocost {

/// Filters of a PNG's rows, which are stored as differences from their neighbours. The numbers are
/// the file's.
enum class PngFilter : std::uint8_t { kNone = 0, kSub = 1, kUp = 2, kAverage = 3, kPaeth = 4 };

/// Readable bytes after each row that the kernels read, and writable bytes after each that they
/// write. Their contents do not matter, and are undefined afterwards.
constexpr std::size_t kPngRowSlack = 64;

/// The inner loops of PNG decoding. All kernels compute the same bytes.
struct PngRowKernels {
  /// Restores a row of `bytes`, pixels of `pixel_bytes` (1 to 4). `above` is the restored row above
  /// it, or zeros. `to` may overlap `row` if it begins at least kPngRowSlack bytes before it.
  void (*unfilter)(PngFilter filter, std::size_t pixel_bytes, const std::uint8_t* row,
                   const std::uint8_t* above, std::size_t bytes, std::uint8_t* to);
  /// Converts RGBA to RGB: drops alpha.
  void (*drop_alpha)(const std::uint8_t* rgba, std::size_t pixels, std::uint8_t* rgb);
  /// Converts RGBA to RGB: lays pixels on white, as make_opaque does.
  void (*on_white)(const std::uint8_t* rgba, std::size_t pixels, std::uint8_t* rgb);
};

/// Returns plain C++ kernels, the reference for the others.
const PngRowKernels& portable_png_kernels();
/// Returns the kernels for the processor's vectors, chosen at run time.
const PngRowKernels& fastest_png_kernels();

using PngRowTarget = SimdTarget<PngRowKernels>;
/// Returns the kernels for every set of vector instructions that this processor has. For tests:
/// while it runs, fastest_png_kernels must not be called for the first time.
std::vector<PngRowTarget> png_row_targets();

}  // namespace isocost
