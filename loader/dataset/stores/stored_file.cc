#include "loader/dataset/stores/stored_file.h"

#include <array>
#include <span>
#include <utility>

#include "loader/dataset/stores/internal/compressed_stream.h"
#include "loader/dataset/stores/internal/inflated_shard.h"
#include "loader/dataset/stores/internal/local_shard.h"
#include "loader/dataset/stores/internal/object_file.h"
#include "loader/dataset/stores/stored_objects.h"

namespace isocost {

Result<FileStamp> stamp_of(const StoredFile& file) {
  if (!file.objects) return stamp_of(file.path);
  ISOCOST_ASSIGN(const ObjectStamp stamp, file.objects->stamp(file.key));
  return file_stamp_of(stamp);
}

Result<std::shared_ptr<const ShardFile>> open_stored(const StoredFile& file,
                                                     const std::stop_token& stop) {
  if (file.objects) return ObjectFile::open(file.objects, file.key, stop);
  ISOCOST_ASSIGN(auto local, LocalShard::open(file.path));
  return std::shared_ptr<const ShardFile>(std::move(local));
}

Result<std::shared_ptr<const ShardFile>> inflate_shard(const StoredFile& file,
                                                       std::shared_ptr<const ShardFile> stored,
                                                       const std::stop_token& stop) {
  if (file.objects && !file.is_compressed) return stored;
  return InflatedShard::open(std::move(stored), file.path.string(), ShardFile::kMaxInflatedBytes,
                             file.objects ? file.objects->stop_of(stop) : stop);
}

Result<std::shared_ptr<const ShardFile>> open_shard(const StoredFile& file,
                                                    const std::stop_token& stop) {
  ISOCOST_ASSIGN(auto stored, open_stored(file, stop));
  return inflate_shard(file, std::move(stored), stop);
}

Status refuse_misnamed_object(const StoredFile& file, const ShardFile& shard) {
  if (!file.objects || file.is_compressed) return {};
  std::array<std::byte, 4> begin{};
  ISOCOST_ASSIGN(const std::size_t read, shard.read_at(0, begin));
  if (!is_compressed(std::span(begin).first(read))) return {};
  return Error(ErrorCode::kUnsupported,
               "it is compressed, and its name does not say so; call it .tar.gz or .tar.zst, or "
               "store it as a plain .tar");
}

}  // namespace isocost
