#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/internal/bmp_layout.h"

namespace isocost {

/// Returns the colour indices of a BMP in runs, row by row in the order of the file, which is a
/// byte for each pixel. Those that a stream leaves out are 0. `data` begins with the first run.
/// Errors: kCorrupt if the stream ends before its end mark and before the last pixel.
Result<std::vector<std::uint8_t>> read_bmp_runs(ByteView data, const BmpLayout& layout);

}  // namespace isocost
