#pragma once

#include <string_view>

namespace isocost {

/// The endings of shards' names, for messages.
inline constexpr std::string_view kShardNames = "*.tar, *.tar.gz, *.tgz, *.tar.zst, *.tzst";

/// Returns whether a name has the ending of a shard.
bool has_shard_ending(std::string_view name);

/// Returns whether a file of this name is a shard of its directory: hidden ones are not. The bytes
/// of a file, and not its name, decide how it is read; of an object its name says whether it is
/// compressed.
bool is_shard_name(std::string_view name);

/// Returns whether a file of this name holds records of JSON, one a line: *.jsonl, plain or
/// compressed by gzip or zstd. Hidden ones do not.
bool is_records_name(std::string_view name);

/// Returns why a file of this name, which is not a shard, holds samples that are not read, and what
/// to do: an archive of another format, or a download that was not completed. Empty: it holds none.
std::string_view why_no_shard(std::string_view name);

/// Returns whether a shard of this name is expected to be compressed.
bool names_compressed_shard(std::string_view name);

}  // namespace isocost
