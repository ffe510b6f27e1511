#include "loader/dataset/stores/internal/inflated_shard.h"

#include <array>
#include <utility>

#include "loader/dataset/stores/internal/compressed_stream.h"
#include "loader/dataset/stores/read_windows.h"

namespace isocost {

Result<std::shared_ptr<const ShardFile>> InflatedShard::open(
    std::shared_ptr<const ShardFile> stored, const std::string& name,
    std::int64_t max_inflated_bytes, const std::stop_token& stop) {
  const std::shared_ptr<const ByteSource> bytes = stored->pass(stop);
  std::array<std::byte, 4> begin{};
  ISOCOST_ASSIGN(const std::size_t read, bytes->read_at(0, begin));
  if (!is_compressed(std::span(begin).first(read))) return stored;
  ISOCOST_ASSIGN(Decompressed plain,
                 decompress_to_temporary(*bytes, name, max_inflated_bytes, stop));
  return std::shared_ptr<const ShardFile>(new InflatedShard(std::move(stored), std::move(plain)));
}

InflatedShard::InflatedShard(std::shared_ptr<const ShardFile> stored, Decompressed plain)
    : ShardFile(stored->state()), stored_(std::move(stored)), plain_(std::move(plain)) {}

Result<std::size_t> InflatedShard::read_at(std::int64_t offset,
                                           std::span<std::byte> destination) const {
  auto read = plain_.file.read_at(offset, destination);
  if (!read) return std::move(read).error().with_context("reading a shard");
  return read;
}

std::shared_ptr<const ByteSource> InflatedShard::pass(const std::stop_token& /*stop*/) const {
  return std::make_shared<const ReadWindows>(
      std::make_unique<MemberSource>(shared_from_this(), 0, size()));
}

}  // namespace isocost
