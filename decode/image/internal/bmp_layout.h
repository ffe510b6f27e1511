#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

/// The header of a BMP of Windows, or of OS/2 1.x. It names the pixels' place as Pillow finds it,
/// whatever the header says of it.
struct BmpLayout {
  static constexpr std::size_t kBytes = 70;  ///< Bytes that are read of a file, if it has them.

  std::uint64_t data_offset = 0;     ///< Offset of the rows.
  std::uint64_t palette_offset = 0;  ///< Offset after the header and its masks.
  std::uint64_t palette_entries = 0;
  std::uint64_t entry_bytes = 4;  ///< Bytes of a colour of the palette: 3 or 4.
  std::uint64_t bits = 0;         ///< 1, 4, 8, 16, 24 or 32.
  std::uint64_t compression = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;  ///< Negative: rows come from the top.
  /// Masks of red, green, blue and opacity, where `bits` > 8. That of opacity is 0 for pixels
  /// without one.
  std::array<std::uint32_t, 4> masks{};

  /// Reads the first bytes of a file, up to kBytes. Errors: kCorrupt; kUnsupported for kinds that
  /// are not decoded.
  static Result<BmpLayout> read(ByteView head);

  bool has_palette() const { return bits <= 8; }
  bool has_runs() const { return compression == 1 || compression == 2; }
  /// Returns the bytes of a row of pixels, without and with its padding. Not for runs.
  std::uint64_t row_bytes() const { return (static_cast<std::uint64_t>(width) * bits + 7) / 8; }
  std::uint64_t stride() const { return (row_bytes() + 3) / 4 * 4; }
};

}  // namespace isocost
