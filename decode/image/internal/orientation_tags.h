#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

/// The orientations that a picture's metadata state, as Pillow's getexif reads them: EXIF counts,
/// and XMP where EXIF states none.
struct OrientationTags {
  std::optional<std::int64_t> exif;
  std::optional<std::int64_t> xmp;

  /// Returns EXIF's number from 1 to 8. Another number counts as 1, and so does none.
  std::uint8_t orientation() const;
};

/// Returns the orientation that the EXIF block (a small TIFF) within [begin, end) states as a whole
/// number: in its first entry of that kind, of one of TIFF's types but BYTE and the floating ones.
/// A block that is broken states none. Errors: kIo.
Result<std::optional<std::int64_t>> exif_orientation(HeaderWindow& window, std::int64_t begin,
                                                     std::int64_t end);

/// Returns the orientation that an XMP packet within [begin, end) states. Reads its first MiB.
/// Errors: kIo.
Result<std::optional<std::int64_t>> xmp_orientation(HeaderWindow& window, std::int64_t begin,
                                                    std::int64_t end);

/// Returns the orientation that the text of an XMP packet states.
std::optional<std::int64_t> xmp_orientation(std::string_view packet);

}  // namespace isocost
