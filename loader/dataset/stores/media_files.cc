#include "loader/dataset/stores/media_files.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

namespace isocost {
namespace {

Status compare(const std::filesystem::path& path, const FileStamp& found,
               const FileStamp& indexed) {
  if (found == indexed) return {};
  return Error(ErrorCode::kUnavailable,
               fmt::format("{}: has changed since it was indexed: put it back, or start again with "
                           "what it is now",
                           path.string()));
}

}  // namespace

// The bytes of one file, which is opened again if it was closed meanwhile.
class MediaFiles::Source final : public ByteSource {
 public:
  Source(MediaFiles& files, std::filesystem::path path, const FileStamp& stamp)
      : files_(files), path_(std::move(path)), stamp_(stamp) {}

  std::int64_t size() const override { return stamp_.bytes; }
  Result<std::size_t> read_at(std::int64_t offset,
                              std::span<std::byte> destination) const override {
    ISOCOST_ASSIGN(const File file, files_.get(path_, stamp_));
    auto read = file->file.read_at(offset, destination);
    if (!read) return std::move(read).error().with_context(path_.string());
    return read;
  }

 private:
  MediaFiles& files_;
  const std::filesystem::path path_;
  const FileStamp stamp_;
};

MediaFiles::MediaFiles(std::size_t max_open) : max_open_(std::max<std::size_t>(max_open, 1)) {}

Result<std::unique_ptr<ByteSource>> MediaFiles::open(const std::filesystem::path& path,
                                                     const FileStamp& stamp) {
  // A file that is open was compared when it was opened, which may be long ago.
  ISOCOST_TRY(compare_stamp(path, stamp));
  ISOCOST_TRY(get(path, stamp));
  return std::make_unique<Source>(*this, path, stamp);
}

Result<MediaFiles::File> MediaFiles::get(const std::filesystem::path& path,
                                         const FileStamp& stamp) {
  const std::string name = path.string();
  if (File file = find(name, stamp)) return file;
  ISOCOST_ASSIGN(StampedFile opened, open_regular_file(path));
  ISOCOST_TRY(compare(path, opened.stamp, stamp));
  auto file = std::make_shared<const StampedFile>(std::move(opened));
  insert(name, file);
  return file;
}

MediaFiles::File MediaFiles::find(const std::string& name, const FileStamp& stamp) {
  const MutexLock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end() || found->second->second->stamp != stamp) return nullptr;
  files_.splice(files_.begin(), files_, found->second);
  return found->second->second;
}

void MediaFiles::insert(const std::string& name, File file) {
  Files evicted;  // closed after the lock is released
  const MutexLock lock(mutex_);
  if (const auto earlier = by_name_.find(name); earlier != by_name_.end()) {
    evicted.splice(evicted.begin(), files_, earlier->second);
  }
  files_.emplace_front(name, std::move(file));
  by_name_[name] = files_.begin();
  if (files_.size() <= max_open_) return;
  by_name_.erase(files_.back().first);
  evicted.splice(evicted.begin(), files_, std::prev(files_.end()));
}

void MediaFiles::read_ahead(const std::filesystem::path& path, std::int64_t bytes) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.is_open()) {
    static_cast<void>(posix_fadvise(file.get(), 0, bytes, POSIX_FADV_WILLNEED));
  }
}

Status compare_stamp(const std::filesystem::path& path, const FileStamp& indexed) {
  ISOCOST_ASSIGN(const FileStamp found, stamp_of(path));
  return compare(path, found, indexed);
}

}  // namespace isocost
