#include "loader/dataset/internal/shard_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "loader/dataset/internal/inflate.h"

namespace isocost {
namespace {

FileStamp stamp_from(const struct stat& status) {
  return {status.st_size,
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace

Result<FileStamp> stamp_of(const std::filesystem::path& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return last_file_error(path, "stat");
  return stamp_from(status);
}

Result<std::shared_ptr<const ShardFile>> ShardFile::open(const std::filesystem::path& path,
                                                         std::int64_t max_inflated_bytes) {
  std::shared_ptr<ShardFile> file(new ShardFile());
  file->file_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file->file_.is_open()) return last_file_error(path, "open");
  struct stat status{};
  if (fstat(file->file_.get(), &status) != 0) return last_file_error(path, "stat");
  file->stamp_ = stamp_from(status);
  file->bytes_ = file->stamp_.bytes;
  std::array<std::byte, 2> magic{};
  ISOCOST_ASSIGN(const std::size_t read, file->read_at(0, magic));
  if (read == magic.size() && magic[0] == std::byte{0x1F} && magic[1] == std::byte{0x8B}) {
    ISOCOST_TRY(file->inflate(path, max_inflated_bytes));
  }
  return std::shared_ptr<const ShardFile>(std::move(file));
}

Status ShardFile::inflate(const std::filesystem::path& path, std::int64_t max_bytes) {
  ISOCOST_ASSIGN(Inflated plain, inflate_to_temporary(*this, path.string(), max_bytes));
  file_ = std::move(plain.file);
  bytes_ = plain.bytes;
  problem_ = std::move(plain.problem);
  inflated_ = true;
  return {};
}

Result<std::size_t> ShardFile::read_at(std::int64_t offset,
                                       std::span<std::byte> destination) const {
  auto read = file_.read_at(offset, destination);
  if (!read) return std::move(read).error().with_context("reading a shard");
  return read;
}

void ShardFile::read_ahead(std::int64_t offset, std::int64_t bytes) const {
  // Advice only: a file system may ignore it.
  (void)posix_fadvise(file_.get(), offset, bytes, POSIX_FADV_WILLNEED);
}

MemberSource::MemberSource(std::shared_ptr<const ShardFile> shard, std::int64_t offset,
                           std::int64_t bytes)
    : shard_(std::move(shard)), offset_(offset), bytes_(bytes) {}

Result<std::size_t> MemberSource::read_at(std::int64_t offset,
                                          std::span<std::byte> destination) const {
  if (offset < 0) return Error(ErrorCode::kInvalidArgument, "negative read offset");
  if (offset >= bytes_) return std::size_t{0};
  const auto rest = static_cast<std::size_t>(bytes_ - offset);
  return shard_->read_at(offset_ + offset, destination.first(std::min(rest, destination.size())));
}

ShardCache::ShardCache(std::size_t max_open, std::int64_t max_inflated_bytes)
    : max_open_(std::max<std::size_t>(max_open, 1)),
      max_inflated_bytes_(max_inflated_bytes),
      opening_(64) {}

Result<std::shared_ptr<const ShardFile>> ShardCache::get(const std::filesystem::path& path,
                                                         const FileStamp& stamp) {
  const std::string name = path.string();
  if (auto file = find(name)) return file;
  const MutexLock opening(opening_[std::hash<std::string>{}(name) % opening_.size()]);
  if (auto file = find(name)) return file;
  ISOCOST_ASSIGN(auto file, ShardFile::open(path));
  if (file->stamp() != stamp) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: has changed since it was indexed; start again", name));
  }
  insert(name, file);
  return file;
}

std::shared_ptr<const ShardFile> ShardCache::find(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  files_.splice(files_.begin(), files_, found->second);
  return found->second->second;
}

void ShardCache::insert(const std::string& name, std::shared_ptr<const ShardFile> file) {
  Files evicted;  // closed after the lock is given back
  const MutexLock lock(mutex_);
  inflated_bytes_ += file->inflated() ? file->size() : 0;
  files_.emplace_front(name, std::move(file));
  by_name_[name] = files_.begin();
  while (files_.size() > 1 &&
         (files_.size() > max_open_ || inflated_bytes_ > max_inflated_bytes_)) {
    // Only evicting inflated files frees inflated bytes.
    auto victim = std::prev(files_.end());
    while (files_.size() <= max_open_ && !victim->second->inflated()) --victim;
    if (victim == files_.begin()) break;
    inflated_bytes_ -= victim->second->inflated() ? victim->second->size() : 0;
    by_name_.erase(victim->first);
    evicted.splice(evicted.begin(), files_, victim);
  }
}

}  // namespace isocost
