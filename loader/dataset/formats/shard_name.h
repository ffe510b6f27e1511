#pragma once

#include <string_view>

namespace isocost {

/// The endings of shards' names, for messages.
inline constexpr std::string_view kShardNames = "*.tar, *.tar.gz, *.tgz";

/// Returns whether a name has the ending of a shard.
bool has_shard_ending(std::string_view name);

/// Returns whether a file of this name is a shard of its directory: hidden ones are not. The bytes
/// of a shard, and not its name, decide how it is read.
bool is_shard_name(std::string_view name);

/// Returns whether a shard of this name is expected to be compressed.
bool names_compressed_shard(std::string_view name);

}  // namespace isocost
