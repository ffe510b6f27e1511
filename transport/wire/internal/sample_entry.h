#pragma once

#include <algorithm>
#include <cstddef>

#include "transport/wire/internal/byte_codec.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Limits the total size of a header's keys, JSON texts and parts. Both sides count alike, so the
/// writer never makes a header that a reader refuses.
class DescriptionRoom {
 public:
  /// Counts `bytes` if they are at most `most` and still fit. Returns whether they do.
  bool take(std::size_t bytes, std::size_t most) {
    if (bytes > std::min(most, left_)) return false;
    left_ -= bytes;
    return true;
  }

 private:
  std::size_t left_ = kMaxSampleDescriptionBytes;
};

/// Write and read a sample of a header. Keys, parts and JSON texts for which there is no room are
/// left out; a reader fails for them.
void put_sample(ByteWriter& out, const SampleEntry& sample, DescriptionRoom& room);
SampleEntry get_sample(ByteReader& in, DescriptionRoom& room);

}  // namespace isocost
