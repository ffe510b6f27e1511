#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "decode/probe.h"
#include "loader/dataset/internal/selected_shards.h"

namespace isocost {

/// Says which start a table is of.
struct TableIdentity {
  std::uint64_t options = 0;  ///< Hash of what decides which samples count.
  std::uint64_t shards = 0;   ///< Hash of the shards' keys, in their order.
  bool operator==(const TableIdentity&) const = default;
};

/// The shards of a data set as a start found them: so that the next start opens none of their
/// indexes. `keys` has a hash of the name and the root of each shard.
struct ShardTable {
  TableIdentity identity;
  std::vector<std::uint64_t> keys;
  SelectedShards shards;  ///< Without the name of the shard in bad samples.
};

/// Returns the bytes of the file, as docs/index_format.md describes them. Left out are shards
/// without an index file.
std::vector<std::byte> encode_table(const TableIdentity& identity,
                                    std::span<const std::uint64_t> keys,
                                    const SelectedShards& shards);

/// Bytes of the header of such a file.
inline constexpr std::size_t kTableHeaderBytes = 48;

/// Checks the first bytes of a file of this size, before the rest is read. Errors: kCorrupt;
/// kUnsupported (another version).
Status check_table_begin(std::span<const std::byte> begin, std::int64_t file_bytes);

/// Checks and reads such a file, whose rows get these limits. Errors: kCorrupt; kUnsupported
/// (another version).
Result<ShardTable> decode_table(std::span<const std::byte> bytes, const ProbeLimits& limits);

}  // namespace isocost
