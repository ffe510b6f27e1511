#include "loader/dataset/catalogue/shard_listing.h"

#include <fmt/format.h>

#include <utility>

#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/stores/directory_listing.h"

namespace isocost {

Result<ShardListing> list_shards(const std::filesystem::path& directory) {
  auto files = list_directory(directory, is_shard_name);
  if (!files && files.error().code() == ErrorCode::kNotFound) {
    return Error(ErrorCode::kNotFound, fmt::format("{}; give the one that holds the shards ({})",
                                                   files.error().message(), kShardNames));
  }
  if (!files) return std::move(files).error();
  if (files->empty()) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("{}: no shards ({}) in it; 'isocost make-shards' writes them",
                             directory.string(), kShardNames));
  }
  ShardListing listing;
  for (ListedFile& file : *files) {
    if (file.problem.empty()) {
      listing.shards.push_back(std::move(file.path));
    } else {
      listing.lost.push_back({std::move(file.name), "", "", std::move(file.problem)});
    }
  }
  return listing;
}

}  // namespace isocost
