#include "loader/dataset/index/index_file.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "base/output_file.h"
#include "loader/dataset/index/internal/index_layout.h"

namespace isocost {
namespace fs = std::filesystem;

Result<std::unique_ptr<ShardIndex>> ShardIndex::map(const fs::path& path) {
  std::unique_ptr<ShardIndex> index(new ShardIndex());
  ISOCOST_ASSIGN(index->mapping_, GuardedMapping::map(path));
  ISOCOST_ASSIGN(index->view_, IndexView::parse(index->mapping_.bytes()));
  index->file_ = path;
  return index;
}

Result<std::unique_ptr<ShardIndex>> ShardIndex::map_again(const fs::path& path,
                                                          const FileStamp& checked) {
  std::unique_ptr<ShardIndex> index(new ShardIndex());
  ISOCOST_ASSIGN(index->mapping_, GuardedMapping::map(path));
  const bool is_same = index->mapping_.stamp() == checked;
  const auto parse = is_same ? &IndexView::parse_again : &IndexView::parse;
  ISOCOST_ASSIGN(index->view_, parse(index->mapping_.bytes()));
  index->file_ = path;
  return index;
}

Result<std::unique_ptr<ShardIndex>> ShardIndex::in_memory(std::vector<std::byte> bytes,
                                                          fs::path kept_in) {
  std::unique_ptr<ShardIndex> index(new ShardIndex());
  index->memory_ = std::move(bytes);
  index->file_ = std::move(kept_in);
  ISOCOST_ASSIGN(index->view_, IndexView::parse(index->memory_));
  return index;
}

void ShardIndex::make_stale() const {
  if (!kept()) return;
  const std::span<const std::byte> current = memory_.empty() ? mapping_.bytes() : memory_;
  std::vector<std::byte> bytes(current.begin(), current.end());
  const std::int64_t size_of_no_file = -1;
  std::memcpy(bytes.data() + offsetof(IndexHeader, shard_bytes), &size_of_no_file,
              sizeof(size_of_no_file));
  const std::uint32_t crc = index_crc(bytes);
  std::memcpy(bytes.data() + offsetof(IndexHeader, crc), &crc, sizeof(crc));
  if (!damaged() && replace_file(file_, bytes)) return;
  std::error_code ignored;  // it may be gone already
  fs::remove(file_, ignored);
}

}  // namespace isocost
