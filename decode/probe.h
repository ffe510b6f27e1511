#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/sample_shape.h"

namespace isocost {

/// Limits that are checked before anything is allocated.
struct ProbeLimits {
  std::int64_t max_pixels = 178'956'970;  ///< Of one image or video frame.
  std::int64_t max_json_bytes = std::int64_t{4} << 20;
  std::int64_t max_text_bytes = std::int64_t{16} << 20;
};

/// Reads as little of `source` as its format needs (a few KB for images and audio, the index of a
/// video) and returns its shape. `part_name` is the WebDataset part name, whose extension tells the
/// expected format. Blocks on reads of `source` and keeps nothing of it. Const-safe. Errors:
/// kCorrupt (truncated header, no frames, zero bytes of anything but text, another format than the
/// name's), kUnsupported (unknown extension or codec), kResourceExhausted (over a limit), kIo.
Result<PartShape> probe(const ByteSource& source, std::string_view part_name,
                        const ProbeLimits& limits);

/// The members of a sample's JSON part that Isocost reads; others are ignored.
struct SampleJson {
  std::string text;     ///< "text": the model reads it in the part's place; empty if absent.
  float weight = 1.0F;  ///< "weight": finite, >= 0.
  /// It has "messages" or "conversations", which `isocost tokenize` reads.
  bool is_conversation = false;
};
/// Parses a JSON part. Errors: kCorrupt if it is not a JSON object in UTF-8, or if a member has
/// another type or is out of range.
Result<SampleJson> parse_sample_json(std::string_view text);

}  // namespace isocost
