#include "loader/dataset/internal/cache_needs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "base/units.h"
#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/names/data_text.h"
#include "loader/dataset/stores/stored_objects.h"  // IWYU pragma: keep (the type of `objects`)

namespace isocost {
namespace {

// Returns the bytes of two windows of a source's largest shards on servers, or of all of them.
// Their stamps are known from the listing.
std::int64_t bytes_of_windows(const ListedSource& source, const DatasetOptions& options) {
  std::vector<std::int64_t> bytes;
  for (const ShardPlace& place : source.listing.shards) {
    if (!place.root->objects) continue;
    const auto stamp = place.root->objects->stamp(place.name, options.stop);
    if (stamp) bytes.push_back(stamp->bytes);
  }
  const std::size_t shards = std::min(bytes.size(), 2 * options.window_shards);
  std::ranges::nth_element(bytes, bytes.begin() + static_cast<std::ptrdiff_t>(shards),
                           std::greater<>());
  return std::accumulate(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(shards),
                         std::int64_t{0});
}

// Their stamps are known from the listing.
std::int64_t bytes_of_compressed(std::span<const ListedSource> sources,
                                 const DatasetOptions& options) {
  std::int64_t bytes = 0;
  for (const ListedSource& source : sources) {
    for (const ShardPlace& place : source.listing.shards) {
      if (!place.root->objects || !names_compressed_shard(place.name)) continue;
      const auto stamp = place.root->objects->stamp(place.name, options.stop);
      if (stamp) bytes += stamp->bytes;
    }
  }
  return bytes;
}

// A sample of a shard that the cache has let go costs the whole shard.
Status check_room_of_compressed(std::span<const ListedSource> sources,
                                const DatasetOptions& options) {
  const std::int64_t bytes = bytes_of_compressed(sources, options);
  const std::int64_t needed = bytes + bytes / 15 + 1;
  if (bytes == 0 || needed <= options.stores.cache_size) return {};
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("cache_size: samples are drawn from all shards, and a cache of {} MiB "
                           "has no room for the {} MiB of those that are compressed, which would "
                           "be fetched whole again and again: give cache_size = {}MiB or more, use "
                           "shuffle = blocks, or store them as plain .tar",
                           options.stores.cache_size / kMiB, bytes / kMiB, needed / kMiB + 1));
}

Status check_compressed(std::span<const ListedSource> sources) {
  for (const ListedSource& source : sources) {
    for (const ShardPlace& place : source.listing.shards) {
      if (!place.root->objects || !names_compressed_shard(place.name)) continue;
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("{}: it is compressed, so it would be fetched whole whenever it is "
                               "opened again; give a cache (cache = DIR), or store it as a plain "
                               ".tar",
                               printable_path(place.path().string())));
    }
  }
  return {};
}

Status check_room_of_windows(std::span<const ListedSource> sources, const DatasetOptions& options) {
  std::int64_t bytes = 0;
  for (const ListedSource& source : sources) bytes += bytes_of_windows(source, options);
  // A cache leaves a sixteenth of its room free.
  const std::int64_t needed = bytes + bytes / 15 + 1;
  if (needed <= options.stores.cache_size) return {};
  return Error(
      ErrorCode::kInvalidArgument,
      fmt::format(
          "cache_size: shuffle = blocks draws from two windows of {} shards at a time, and "
          "a cache of {} MiB has no room for their {} MiB: give cache_size = {}MiB or more, "
          "fewer shuffle_shards, or shuffle = global",
          options.window_shards, options.stores.cache_size / kMiB, bytes / kMiB,
          needed / kMiB + 1));
}

}  // namespace

Status check_cache_needs(std::span<const ListedSource> sources, const DatasetOptions& options) {
  const bool has_cache = !options.stores.cache.empty();
  if (options.reads_again && !has_cache) return check_compressed(sources);
  if (options.window_shards > 0 && has_cache) return check_room_of_windows(sources, options);
  return options.reads_again ? check_room_of_compressed(sources, options) : Status();
}

}  // namespace isocost
