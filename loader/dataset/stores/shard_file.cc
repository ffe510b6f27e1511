#include "loader/dataset/stores/shard_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "loader/dataset/stores/internal/compressed_stream.h"
#include "loader/dataset/stores/internal/decompress.h"
#include "loader/dataset/stores/internal/stat_times.h"

namespace isocost {
namespace {

FileState state_from(const struct stat& status) {
  return {stamp_from(status), nanoseconds(status.st_ctim), status.st_dev, status.st_ino};
}

// Asks the operating system to read a range ahead, which a file system may ignore.
void advise(const FileDescriptor& file, std::int64_t offset, std::int64_t bytes) {
  // Linux silently limits the size of one request to the device's read-ahead, often 128 KiB.
  constexpr std::int64_t kPiece = std::int64_t{128} << 10;
  for (const std::int64_t end = offset + bytes; offset < end; offset += kPiece) {
    static_cast<void>(
        posix_fadvise(file.get(), offset, std::min(kPiece, end - offset), POSIX_FADV_WILLNEED));
  }
}

// Returns the offsets of the blocks that identify a file's content: the first, the last, and 14
// between them.
constexpr std::int64_t kBlockBytes = 4096;
std::array<std::int64_t, 16> block_offsets(std::int64_t file_bytes) {
  const std::int64_t last = std::max<std::int64_t>(file_bytes - kBlockBytes, 0);
  std::array<std::int64_t, 16> offsets{};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    offsets.at(i) =
        last * static_cast<std::int64_t>(i) / static_cast<std::int64_t>(offsets.size() - 1);
  }
  return offsets;
}

}  // namespace

Result<std::shared_ptr<const ShardFile>> ShardFile::open(const std::filesystem::path& path,
                                                         std::int64_t max_inflated_bytes,
                                                         const std::stop_token& stop) {
  std::shared_ptr<ShardFile> file(new ShardFile());
  file->file_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file->file_.is_open()) return last_file_error(path, "open");
  struct stat status{};
  if (fstat(file->file_.get(), &status) != 0) return last_file_error(path, "stat");
  file->state_ = state_from(status);
  file->bytes_ = status.st_size;
  std::array<std::byte, 4> begin{};
  ISOCOST_ASSIGN(const std::size_t read, file->read_at(0, begin));
  if (is_compressed(std::span(begin).first(read))) {
    ISOCOST_TRY(file->inflate(path, max_inflated_bytes, stop));
  }
  return std::shared_ptr<const ShardFile>(std::move(file));
}

Status ShardFile::inflate(const std::filesystem::path& path, std::int64_t max_bytes,
                          const std::stop_token& stop) {
  ISOCOST_ASSIGN(Decompressed plain,
                 decompress_to_temporary(*this, path.string(), max_bytes, stop));
  plain_ = std::move(plain.file);
  bytes_ = plain.bytes;
  problem_ = std::move(plain.problem);
  unread_ = std::move(plain.unread);
  return {};
}

bool ShardFile::changed() const {
  struct stat status{};
  return fstat(file_.get(), &status) != 0 || state_from(status) != state_;
}

Result<std::uint64_t> ShardFile::content_hash() const {
  std::array<std::byte, kBlockBytes> block{};
  const auto offsets = block_offsets(state_.stamp.bytes);
  // Requests all blocks at once, so that a disk or a network is waited for only once.
  for (const std::int64_t offset : offsets) advise(file_, offset, kBlockBytes);
  Fingerprint hash;
  for (const std::int64_t offset : offsets) {
    ISOCOST_ASSIGN(const std::size_t read, file_.read_at(offset, block));
    hash.add(std::string_view(reinterpret_cast<const char*>(block.data()), read));
  }
  return hash.value();
}

Result<std::uint64_t> ShardFile::whole_hash(const std::stop_token& stop) const {
  std::vector<std::byte> block(std::size_t{1} << 20);
  Fingerprint hash;
  for (std::int64_t at = 0;;) {
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while hashing");
    ISOCOST_ASSIGN(const std::size_t read, file_.read_at(at, block));
    hash.add(std::string_view(reinterpret_cast<const char*>(block.data()), read));
    if (read < block.size()) return hash.value();
    at += static_cast<std::int64_t>(read);
  }
}

Result<std::uint64_t> ShardFile::plain_hash(const ByteRange& range,
                                            const std::stop_token& stop) const {
  std::vector<std::byte> block(std::size_t{1} << 20);
  Fingerprint hash;
  for (std::int64_t at = range.begin; at < range.end;) {
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while hashing");
    const auto left = static_cast<std::size_t>(range.end - at);
    ISOCOST_ASSIGN(const std::size_t read,
                   read_at(at, std::span(block).first(std::min(left, block.size()))));
    if (read == 0) break;
    hash.add(std::string_view(reinterpret_cast<const char*>(block.data()), read));
    at += static_cast<std::int64_t>(read);
  }
  return hash.value();
}

Result<std::size_t> ShardFile::read_at(std::int64_t offset,
                                       std::span<std::byte> destination) const {
  auto read = (inflated() ? plain_ : file_).read_at(offset, destination);
  if (!read) return std::move(read).error().with_context("reading a shard");
  return read;
}

void ShardFile::read_ahead(std::span<const ByteRange> ranges) const {
  for (const auto [begin, end] : ranges) advise(file_, begin, end - begin);
}

void ShardFile::read_ahead(const std::filesystem::path& path, std::int64_t bytes,
                           std::span<const ByteRange> ranges) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return;
  for (const std::int64_t offset : block_offsets(bytes)) advise(file, offset, kBlockBytes);
  for (const auto [begin, end] : ranges) advise(file, begin, end - begin);
}

MemberSource::MemberSource(std::shared_ptr<const ByteSource> shard, std::int64_t offset,
                           std::int64_t bytes)
    : shard_(std::move(shard)), offset_(offset), bytes_(bytes) {}

Result<std::size_t> MemberSource::read_at(std::int64_t offset,
                                          std::span<std::byte> destination) const {
  if (offset < 0) return Error(ErrorCode::kInvalidArgument, "negative read offset");
  if (offset >= bytes_) return std::size_t{0};
  const auto rest = static_cast<std::size_t>(bytes_ - offset);
  return shard_->read_at(offset_ + offset, destination.first(std::min(rest, destination.size())));
}

}  // namespace isocost
