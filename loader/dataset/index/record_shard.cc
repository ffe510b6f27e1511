#include "loader/dataset/index/record_shard.h"

#include <utility>

namespace isocost {

Result<std::shared_ptr<const ShardFile>> RecordsFile::open(const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  if (file_) return file_;
  ISOCOST_ASSIGN(auto file, ShardFile::open(path_, ShardFile::kMaxInflatedBytes, stop));
  const std::string& problem = file->problem().empty() ? file->unread() : file->problem();
  if (!problem.empty()) return Error(ErrorCode::kIo, path_.string() + ": " + problem);
  file_ = std::move(file);
  return file_;
}

void RecordsFile::close() {
  std::shared_ptr<const ShardFile> closed;  // outside of the lock
  const MutexLock lock(mutex_);
  closed.swap(file_);
}

std::filesystem::path RecordShard::media_root() const {
  if (!file) return directory;
  return options.media_root.empty() ? file->path().parent_path() : options.media_root;
}

void RecordShard::let_go() {
  if (file) file->close();
  samples = {};
}

Result<FileStamp> stamp_of(const RecordShard& shard) {
  if (!shard.file) return FileStamp{};
  return stamp_of(shard.path());
}

}  // namespace isocost
