#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/byte_range.h"

namespace isocost {

/// A range that an entry holds, as one process knows it.
struct StoredRange {
  ByteRange range;
  std::uint32_t crc = 0;
  std::int64_t record = 0;   ///< Place of its record in the file.
  bool is_verified = false;  ///< Whether this process has compared the bytes with the CRC.
};

/// The ranges that an entry holds. Single-thread.
class StoredRanges {
 public:
  /// Adds a range, unless one with the same begin goes as far.
  void add(const StoredRange& added);
  /// Removes a range, if it is there with this record.
  void remove(const StoredRange& removed);
  void set_verified(const StoredRange& verified);
  /// Returns ranges that together hold all of a range, in order; none if some of it is not held.
  std::vector<StoredRange> cover(ByteRange wanted) const;
  /// Returns the parts of a range that are not held, in order.
  std::vector<ByteRange> missing(ByteRange wanted) const;
  /// Returns the number of bytes that are held; those that several ranges hold count once.
  std::int64_t bytes() const;
  std::vector<StoredRange> all() const;

 private:
  std::optional<StoredRange> holding(std::int64_t offset) const;

  std::map<std::int64_t, StoredRange> ranges_;  // by begin
};

}  // namespace isocost
