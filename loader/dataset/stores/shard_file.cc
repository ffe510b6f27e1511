#include "loader/dataset/stores/shard_file.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/fingerprint.h"
#include "loader/dataset/stores/internal/identifying_blocks.h"
#include "loader/dataset/stores/internal/inflated_shard.h"
#include "loader/dataset/stores/internal/local_shard.h"

namespace isocost {
namespace {

const std::string nothing;

// Returns a hash of the bytes of a range, or of those up to the end if it is reached before.
template <typename Read>
Result<std::uint64_t> hash_of(const ByteRange& range, const std::stop_token& stop, Read read) {
  std::vector<std::byte> block(std::size_t{1} << 20);
  Fingerprint hash;
  for (std::int64_t at = range.begin; at < range.end;) {
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while hashing");
    const auto left = static_cast<std::size_t>(range.end - at);
    const auto wanted = std::span(block).first(std::min(left, block.size()));
    ISOCOST_ASSIGN(const std::size_t count, read(at, wanted));
    hash.add(std::string_view(reinterpret_cast<const char*>(block.data()), count));
    if (count < wanted.size()) break;
    at += static_cast<std::int64_t>(count);
  }
  return hash.value();
}

}  // namespace

Result<std::shared_ptr<const ShardFile>> ShardFile::open(const std::filesystem::path& path,
                                                         std::int64_t max_inflated_bytes,
                                                         const std::stop_token& stop) {
  ISOCOST_ASSIGN(auto stored, LocalShard::open(path));
  return InflatedShard::open(std::move(stored), path.string(), max_inflated_bytes, stop);
}

const std::string& ShardFile::problem() const { return nothing; }
const std::string& ShardFile::unread() const { return nothing; }

Result<std::uint64_t> ShardFile::content_hash() const {
  const std::vector<ByteRange> blocks = identifying_blocks(state_.stamp.bytes);
  // Requests all blocks at once, so that a disk or a network is waited for only once.
  const auto fetched = fetch(blocks, {});
  std::vector<std::byte> block(kIdentifyingBlockBytes);
  Fingerprint hash;
  for (const ByteRange& range : blocks) {
    ISOCOST_ASSIGN(const std::size_t read, fetched ? fetched->read_at(range.begin, block)
                                                   : read_stored(range.begin, block));
    hash.add(std::string_view(reinterpret_cast<const char*>(block.data()), read));
  }
  return hash.value();
}

Result<std::uint64_t> ShardFile::whole_hash(const std::stop_token& stop) const {
  const auto plain = inflated() ? nullptr : pass();
  constexpr ByteRange kToTheEnd{0, std::numeric_limits<std::int64_t>::max()};
  return hash_of(kToTheEnd, stop, [&](std::int64_t at, std::span<std::byte> to) {
    return plain ? plain->read_at(at, to) : read_stored(at, to);
  });
}

Result<std::uint64_t> ShardFile::plain_hash(const ByteRange& range,
                                            const std::stop_token& stop) const {
  const auto bytes = pass();
  return hash_of(range, stop,
                 [&](std::int64_t at, std::span<std::byte> to) { return bytes->read_at(at, to); });
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
