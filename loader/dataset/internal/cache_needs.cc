#include "loader/dataset/internal/cache_needs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "base/units.h"
#include "loader/dataset/names/data_text.h"
#include "loader/dataset/stores/stored_file.h"
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

std::vector<ShardPlace> compressed_objects(std::span<const ListedSource> sources) {
  std::vector<ShardPlace> compressed;
  for (const ListedSource& source : sources) {
    for (const ShardPlace& place : source.listing.shards) {
      const StoredFile file = place.file();
      if (file.objects && file.is_compressed) compressed.push_back(place);
    }
  }
  return compressed;
}

// Returns the size of a cache that has room for so many bytes: it leaves a sixteenth of it free.
std::int64_t size_for(std::int64_t bytes) { return bytes + bytes / 15 + 1; }

// A sample of a shard that the cache has let go costs the whole shard.
Status check_room_of_compressed(std::span<const ListedSource> sources,
                                const DatasetOptions& options) {
  std::int64_t bytes = 0;
  for (const ShardPlace& place : compressed_objects(sources)) {
    const auto stamp = place.root->objects->stamp(place.name, options.stop);
    if (stamp) bytes += stamp->bytes;
  }
  if (bytes == 0 || size_for(bytes) <= options.stores.cache_size) return {};
  return Error(
      ErrorCode::kInvalidArgument,
      fmt::format("cache_size: samples are drawn from all shards, and a cache of {} MiB "
                  "has no room for the {} MiB of those that are compressed, which would "
                  "be fetched whole again and again: give cache_size = {}MiB or more, use "
                  "shuffle = blocks, or store them as plain .tar",
                  options.stores.cache_size / kMiB, bytes / kMiB, size_for(bytes) / kMiB + 1));
}

Status refuse_compressed(std::span<const ListedSource> sources) {
  const std::vector<ShardPlace> compressed = compressed_objects(sources);
  if (compressed.empty()) return {};
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("{}: it is compressed, so it would be fetched whole whenever it is "
                           "opened again; give a cache (cache = DIR), or store it as a plain .tar",
                           printable_path(compressed.front().path().string())));
}

Status check_room_of_windows(std::span<const ListedSource> sources, const DatasetOptions& options) {
  std::int64_t bytes = 0;
  for (const ListedSource& source : sources) bytes += bytes_of_windows(source, options);
  if (size_for(bytes) <= options.stores.cache_size) return {};
  return Error(
      ErrorCode::kInvalidArgument,
      fmt::format(
          "cache_size: shuffle = blocks draws from two windows of {} shards at a time, and "
          "a cache of {} MiB has no room for their {} MiB: give cache_size = {}MiB or more, "
          "fewer shuffle_shards, or shuffle = global",
          options.window_shards, options.stores.cache_size / kMiB, bytes / kMiB,
          size_for(bytes) / kMiB + 1));
}

}  // namespace

Status check_cache_needs(std::span<const ListedSource> sources, const DatasetOptions& options) {
  const bool has_cache = !options.stores.cache.empty();
  if (options.reads_again && !has_cache) return refuse_compressed(sources);
  if (options.window_shards > 0 && has_cache) return check_room_of_windows(sources, options);
  return options.reads_again ? check_room_of_compressed(sources, options) : Status();
}

}  // namespace isocost
