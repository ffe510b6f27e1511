#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"

namespace isocost {

using ByteView = std::span<const std::uint8_t>;

/// Read unsigned integers of `n` <= 8 bytes at `at`; the caller has checked that they are there.
inline std::uint64_t little_endian(ByteView bytes, std::size_t at, std::size_t n) {
  std::uint64_t value = 0;
  for (std::size_t i = n; i-- > 0;) value = (value << 8) | bytes[at + i];
  return value;
}

inline std::uint64_t big_endian(ByteView bytes, std::size_t at, std::size_t n) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < n; ++i) value = (value << 8) | bytes[at + i];
  return value;
}

/// Reads up to `size` bytes from `offset`, fewer only at the source's end.
Result<std::vector<std::uint8_t>> read_some(const ByteSource& source, std::int64_t offset,
                                            std::size_t size);

/// Returns whether `tag` stands at `at`, wholly within `bytes`.
bool has_tag(ByteView bytes, std::size_t at, std::string_view tag);

/// Returns the offset after ID3v2 tags at `start`, which some taggers put before FLAC and MP3
/// streams.
Result<std::int64_t> skip_id3v2(const ByteSource& source, std::int64_t start = 0);

/// Returns a kCorrupt error with a message in our own words.
Error corrupt(std::string message);

}  // namespace isocost
