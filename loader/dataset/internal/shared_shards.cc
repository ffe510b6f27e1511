#include "loader/dataset/internal/shared_shards.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "loader/dataset/index/index_format.h"
#include "loader/dataset/index/open_indexes.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

// A shard of a source.
struct SourceShard {
  const SourceReading* source;
  const ShardPlace* place;
};

Result<IndexIdentity> identity_of(const SourceShard& shard) {
  return isocost::identity_of(*shard.place, shard.source->limits, shard.source->reading);
}

Status check(const SourceShard& first, const SourceShard& second) {
  ISOCOST_ASSIGN(const IndexIdentity one, identity_of(first));
  ISOCOST_ASSIGN(const IndexIdentity other, identity_of(second));
  if (same_identity(one, other)) return {};
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("sources '{}' and '{}' read {} in two ways (text, ignore_parts, "
                           "weight_key, number_keys, media_root, format or split), and it has one "
                           "index: for one of them, make a directory with links to the files",
                           first.source->name, second.source->name, second.place->path().string()));
}

}  // namespace

Status check_shared_shards(std::span<const ListedSource> sources) {
  if (sources.size() < 2) return {};
  std::unordered_map<std::string, SourceShard> known;
  for (const ListedSource& source : sources) {
    const ShardRoot* root = nullptr;
    std::string directory;
    for (const ShardPlace& place : source.listing.shards) {
      if (place.root.get() != root) {
        root = place.root.get();
        std::error_code ignored;
        directory = fs::weakly_canonical(root->directory, ignored).string() + "/";
      }
      const SourceShard shard{source.reading.get(), &place};
      const auto [found, is_new] = known.try_emplace(directory + place.name, shard);
      if (!is_new) ISOCOST_TRY(check(found->second, shard));
    }
  }
  return {};
}

}  // namespace isocost
