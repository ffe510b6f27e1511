#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace isocost {

inline constexpr std::array<char, 8> kIndexMagic = {'I', 'S', 'O', 'C', 'I', 'D', 'X', '\n'};

/// The first bytes of an index file, little-endian, as in docs/index_format.md.
struct IndexHeader {
  std::array<char, 8> magic = kIndexMagic;
  std::uint32_t version = 0;
  std::uint32_t crc = 0;  ///< CRC-32 of the bytes from 16 on.
  std::uint64_t file_bytes = 0;
  std::int64_t shard_bytes = 0;
  std::int64_t shard_mtime_ns = 0;
  std::int64_t max_pixels = 0;
  std::int64_t max_json_bytes = 0;
  std::int64_t max_text_bytes = 0;
  std::int64_t tar_bytes = 0;
  std::uint64_t samples = 0;
  std::uint64_t parts = 0;
  std::uint64_t bad = 0;
  std::uint64_t names = 0;
  std::uint64_t text_bytes = 0;
  std::uint64_t content_hash = 0;  ///< ShardFile::content_hash.
  std::uint64_t samples_when_whole = 0;
  std::uint8_t condition = 0;
  std::uint8_t has_end_mark = 0;
  std::array<std::uint8_t, 6> padding = {};
  std::uint64_t reading = 0;  ///< SampleReading::hash.
  std::uint64_t remarks = 0;
  // From here on since version 12.
  std::uint64_t files = 0;
  std::uint64_t origin = 0;     ///< IndexIdentity::origin.
  std::uint64_t file_hash = 0;  ///< ShardFile::content_hash of a file of records.
  std::uint8_t kind = 0;        ///< ShardKind.
  std::uint8_t form = 0;        ///< Form of its records.
  std::array<std::uint8_t, 6> padding_at_end = {};
};
static_assert(sizeof(IndexHeader) == 184 && std::is_trivially_copyable_v<IndexHeader>);

/// Returns the size of the header of a version.
constexpr std::size_t index_header_bytes(std::uint32_t version) {
  return version == 11 ? offsetof(IndexHeader, files) : sizeof(IndexHeader);
}

/// Columns follow the header in order, each from a multiple of 8.
class IndexLayout {
 public:
  explicit IndexLayout(std::size_t header_bytes) : end_(header_bytes) {}
  /// Returns the offset of a column of `count` entries.
  std::uint64_t add(std::uint64_t count, std::uint64_t entry_bytes) {
    const std::uint64_t begin = end_;
    end_ = (begin + count * entry_bytes + 7) / 8 * 8;
    return begin;
  }
  std::uint64_t end() const { return end_; }

 private:
  std::uint64_t end_;
};

/// Returns the checksum of an index file's bytes, which must hold at least a header.
std::uint32_t index_crc(std::span<const std::byte> bytes);

}  // namespace isocost
