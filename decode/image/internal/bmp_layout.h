#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

/// The header of a BMP: of Windows, or of OS/2 1.x.
struct BmpLayout {
  static constexpr std::size_t kFewestBytes = 26;  ///< Bytes of the shortest header.
  static constexpr std::size_t kBytes = 54;        ///< Bytes that are read of a longer one.

  std::uint64_t data_offset = 0;
  std::uint64_t header_bytes = 0;  ///< The first 14 included, and the masks of the colours.
  std::uint64_t bits = 0;
  std::uint64_t compression = 0;
  std::uint64_t data_bytes = 0;  ///< Stated size; 0: it follows from the rows.
  std::int64_t width = 0;
  std::int64_t height = 0;  ///< Negative: rows come from the top.

  /// Reads the first bytes of a file, up to kBytes. Errors: kCorrupt.
  static Result<BmpLayout> read(ByteView head);

  bool has_runs() const { return compression == 1 || compression == 2; }
  /// Returns the bytes of a row of pixels, without and with its padding. Not for runs.
  std::uint64_t row_bytes() const { return (static_cast<std::uint64_t>(width) * bits + 7) / 8; }
  std::uint64_t stride() const { return (row_bytes() + 3) / 4 * 4; }
  /// Returns whether a file of this size has all of the pixels' bytes, which follow from the rows,
  /// or are stated where run lengths make the rows.
  bool fits(std::uint64_t file_bytes) const;
};

}  // namespace isocost
