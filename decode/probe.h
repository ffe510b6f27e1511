#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/sample_shape.h"

namespace isocost {

/// What is refused before anything is allocated for it.
struct ProbeLimits {
  std::int64_t max_pixels = 178'956'970;  ///< Of one image or video frame.
  std::int64_t max_json_bytes = std::int64_t{4} << 20;
  std::int64_t max_text_bytes = std::int64_t{16} << 20;
};

/// Reads as little of `source` as its format needs (a few KB for images and audio; the index of a
/// video) and returns its shape. `part_name` is the WebDataset part name, which says what the bytes
/// should be. Const-safe; reads only through `source`, keeps nothing. Errors: kCorrupt (truncated
/// header, no frames, zero bytes, bytes of another format than the name claims), kUnsupported
/// (unknown extension, codec that we do not decode), kResourceExhausted (over a limit), kIo.
Result<PartShape> probe(const ByteSource& source, std::string_view part_name,
                        const ProbeLimits& limits);

/// What a sample's JSON part says to Isocost; other members are the user's and ignored.
struct SampleJson {
  std::string text;     ///< "text": a string that the model sees in the part's place; else empty.
  float weight = 1.0F;  ///< "weight": finite, >= 0.
};
/// Errors: kCorrupt where the bytes are not a JSON object in UTF-8, or a member has another type or
/// range.
Result<SampleJson> parse_sample_json(std::string_view text);

}  // namespace isocost
