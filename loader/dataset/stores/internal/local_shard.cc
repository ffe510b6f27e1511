#include "loader/dataset/stores/internal/local_shard.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "loader/dataset/stores/internal/identifying_blocks.h"
#include "loader/dataset/stores/internal/stat_times.h"
#include "loader/dataset/stores/read_windows.h"

namespace isocost {
namespace {

FileState state_from(const struct stat& status) {
  return {stamp_from(status), nanoseconds(status.st_ctim), status.st_dev, status.st_ino};
}

// Asks the operating system to read a range ahead, which a file system may ignore.
void advise(const FileDescriptor& file, const ByteRange& range) {
  // Linux silently limits the size of one request to the device's read-ahead, often 128 KiB.
  constexpr std::int64_t kPiece = std::int64_t{128} << 10;
  for (std::int64_t offset = range.begin; offset < range.end; offset += kPiece) {
    static_cast<void>(posix_fadvise(file.get(), offset, std::min(kPiece, range.end - offset),
                                    POSIX_FADV_WILLNEED));
  }
}

}  // namespace

Result<std::shared_ptr<const LocalShard>> LocalShard::open(const std::filesystem::path& path) {
  FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor.is_open()) return last_file_error(path, "open");
  struct stat status{};
  if (fstat(descriptor.get(), &status) != 0) return last_file_error(path, "stat");
  return std::shared_ptr<const LocalShard>(
      new LocalShard(std::move(descriptor), state_from(status)));
}

LocalShard::LocalShard(FileDescriptor file, const FileState& state)
    : ShardFile(state), file_(std::move(file)) {}

Result<std::size_t> LocalShard::read_at(std::int64_t offset,
                                        std::span<std::byte> destination) const {
  auto read = file_.read_at(offset, destination);
  if (!read) return std::move(read).error().with_context("reading a shard");
  return read;
}

std::shared_ptr<const ByteSource> LocalShard::fetch(std::span<const ByteRange> ranges,
                                                    const std::stop_token& /*stop*/) const {
  for (const ByteRange& range : ranges) advise(file_, range);
  return nullptr;
}

std::shared_ptr<const ByteSource> LocalShard::pass(const std::stop_token& /*stop*/) const {
  return std::make_shared<const ReadWindows>(
      std::make_unique<MemberSource>(shared_from_this(), 0, size()));
}

bool LocalShard::changed() const {
  struct stat status{};
  return fstat(file_.get(), &status) != 0 || state_from(status) != state();
}

void read_file_ahead(const std::filesystem::path& path, std::int64_t bytes,
                     std::span<const ByteRange> ranges) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return;
  for (const ByteRange& block : identifying_blocks(bytes)) advise(file, block);
  for (const ByteRange& range : ranges) advise(file, range);
}

}  // namespace isocost
