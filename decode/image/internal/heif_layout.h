#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "decode/bytes/header_window.h"

namespace isocost {

enum class HeifCodec : std::uint8_t { kHevc, kAv1 };

/// A step by which a stored picture becomes the displayed one, in the order of the file.
struct HeifStep {
  enum class Kind : std::uint8_t { kRotate, kMirror, kCrop };
  Kind kind = Kind::kRotate;
  /// kRotate: turns of 90 degrees against the clock. kMirror: 0 exchanges top and bottom, 1 left
  /// and right.
  std::uint8_t value = 0;
  std::int32_t width = 0;  ///< kCrop: the sides that remain.
  std::int32_t height = 0;
};

/// The primary picture of a HEIF file, as HEIC and AVIF are.
struct HeifLayout {
  static constexpr std::size_t kMostSteps = 8;

  HeifCodec codec = HeifCodec::kHevc;
  bool is_deep = false;     ///< Whether samples have more than 8 bits.
  bool is_grid = false;     ///< Whether it is put together of cells.
  std::int32_t width = 0;   ///< Sides before the steps.
  std::int32_t height = 0;  ///< Sides before the steps.
  /// Pixels that are decoded: of a grid, those of all its cells, which may go beyond its sides.
  std::int64_t coded_pixels = 0;
  std::array<HeifStep, kMostSteps> step{};
  std::size_t steps = 0;
};

/// Reads the boxes of a HEIF file (ISO/IEC 14496-12, 23008-12) that describe its primary picture,
/// without a library and with a bounded number of reads. Errors: kCorrupt, also of a file that ends
/// within its boxes; kUnsupported for pictures of other kinds; kIo.
Result<HeifLayout> read_heif_layout(HeaderWindow& window);

}  // namespace isocost
