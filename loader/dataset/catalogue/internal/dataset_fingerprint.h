#pragma once

#include <cstdint>
#include <string_view>

#include "base/fingerprint.h"
#include "loader/dataset/catalogue/shard_row.h"

namespace isocost {

/// A hash of the version of reading and, for each shard, of its name, size, content, choice of what
/// is read, tokenizer, and the number, keys and cuts of its usable samples; equal for equal data
/// sets. Where the shards lie adds nothing, and neither does the name of their source.
class DatasetFingerprint {
 public:
  DatasetFingerprint();
  /// Adds a shard that has this name in its source.
  void add(std::string_view shard, const ShardRow& row);
  std::uint64_t value() const { return hash_.value(); }

 private:
  Fingerprint hash_;
};

}  // namespace isocost
