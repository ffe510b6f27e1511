#include "loader/dataset/internal/shard_files.h"

#include <filesystem>
#include <utility>

#include "loader/dataset/index/checked_shard.h"

namespace isocost {
namespace {

ShardIdentity identity_of(const Shard& shard) {
  return {shard.view().identity().stamp, shard.view().content_hash()};
}

}  // namespace

Result<std::shared_ptr<const ShardFile>> ShardFiles::open(const Shard& shard) {
  auto file = cache_.get(shard.path(), identity_of(shard));
  if (!file && file.error().code() == ErrorCode::kUnavailable) shard.index().make_stale();
  return file;
}

void ShardFiles::read_ahead(const Shard& shard, std::span<const ByteRange> ranges) {
  cache_.read_ahead(shard.path(), identity_of(shard), ranges);
}

Result<bool> ShardFiles::is_as_last_checked(const Shard& shard, const std::stop_token& stop) {
  ISOCOST_ASSIGN(const auto file, open(shard));
  if (!shard.index().kept()) return true;
  std::filesystem::path record = shard.index().file();
  auto same = isocost::is_as_last_checked(*file, record.replace_extension(".checked"), stop);
  if (!same) return std::move(same).error().with_context(shard.path().string());
  return same;
}

}  // namespace isocost
