#include "loader/dataset/stores/stored_file.h"

#include <array>
#include <span>

#include "loader/dataset/stores/internal/compressed_stream.h"
#include "loader/dataset/stores/internal/object_file.h"
#include "loader/dataset/stores/stored_objects.h"

namespace isocost {

Result<FileStamp> stamp_of(const StoredFile& file) {
  if (!file.objects) return stamp_of(file.path);
  ISOCOST_ASSIGN(const ObjectStamp stamp, file.objects->stamp(file.key));
  return file_stamp_of(stamp);
}

Result<std::shared_ptr<const ShardFile>> open_shard(const StoredFile& file,
                                                    const std::stop_token& stop) {
  if (!file.objects) return ShardFile::open(file.path, ShardFile::kMaxInflatedBytes, stop);
  return ObjectFile::open(file.objects, file.key, stop);
}

Status refuse_compressed_object(const StoredFile& file, const ShardFile& shard) {
  if (!file.objects) return {};
  std::array<std::byte, 4> begin{};
  ISOCOST_ASSIGN(const std::size_t read, shard.read_at(0, begin));
  if (!is_compressed(std::span(begin).first(read))) return {};
  return Error(ErrorCode::kUnsupported,
               "it is compressed, and ranges of it cannot be read; store "
               "it as a plain .tar, or copy it to a disk");
}

}  // namespace isocost
