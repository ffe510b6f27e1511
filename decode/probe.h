#pragma once

#include <cstdint>
#include <string_view>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/sample_json.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// Limits that are checked before anything is allocated.
struct ProbeLimits {
  std::int64_t max_pixels = 178'956'970;  ///< Most pixels of one image or video frame.
  std::int64_t max_json_bytes = std::int64_t{4} << 20;
  std::int64_t max_text_bytes = std::int64_t{16} << 20;
};

/// Reads as little of `source` as its format needs (a few KB for images and audio, the index of a
/// video) and returns its shape. `part_name` is the WebDataset part name. Its extension tells
/// text and media apart (modality_from_name). A medium's bytes decide its format. JSON is
/// checked to be what parse_sample_json reads. Blocks on
/// reads of `source` and keeps nothing of it. Const-safe. Errors: kCorrupt (truncated header, no
/// frames, zero bytes of anything but text, a format that is not read), kUnsupported (unknown
/// extension or codec), kResourceExhausted (over a limit), kIo.
Result<PartShape> probe(const ByteSource& source, std::string_view part_name,
                        const ProbeLimits& limits, std::string_view weight_key = kUsualWeightKey);

}  // namespace isocost
