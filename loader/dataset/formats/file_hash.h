#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"

namespace isocost {

/// A hash as the index of a data set states it: the algorithm by its name in Python's hashlib or
/// xxhash, and the digest in hexadecimal digits.
struct StatedHash {
  std::string algorithm;
  std::string digest;
};

/// The algorithms that are computed, for messages.
inline constexpr std::string_view kHashAlgorithms =
    "md5, sha1, sha224, sha256, sha384, sha512, xxh32, xxh64, xxh128, xxh3_64 and xxh3_128";

/// Returns the number of hexadecimal digits of an algorithm's digest; nothing if it is not
/// computed.
std::optional<std::size_t> hash_digits(std::string_view algorithm);

/// Reads the source once and compares it with all hashes. Errors: kCorrupt with the first hash that
/// differs, both digests; kUnsupported for an algorithm that is not computed; kIo; kCancelled.
Status compare_hashes(const ByteSource& source, const std::vector<StatedHash>& hashes,
                      const std::stop_token& stop);

}  // namespace isocost
