#include "decode/bytes/media_bytes.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace isocost {

Result<std::vector<std::uint8_t>> read_some(const ByteSource& source, std::int64_t offset,
                                            std::size_t size) {
  const std::int64_t rest = std::max<std::int64_t>(0, source.size() - offset);
  std::vector<std::uint8_t> bytes(
      static_cast<std::size_t>(std::min<std::int64_t>(rest, static_cast<std::int64_t>(size))));
  if (bytes.empty()) return bytes;
  ISOCOST_ASSIGN(const std::size_t got,
                 source.read_at(offset, std::as_writable_bytes(std::span(bytes))));
  bytes.resize(got);
  return bytes;
}

bool has_tag(ByteView bytes, std::size_t at, std::string_view tag) {
  if (at > bytes.size() || bytes.size() - at < tag.size()) return false;
  return std::equal(tag.begin(), tag.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
}

Result<std::int64_t> skip_id3v2(const ByteSource& source, std::int64_t start) {
  std::int64_t offset = start;
  constexpr int kMaxTags = 8;
  for (int i = 0; i < kMaxTags; ++i) {
    ISOCOST_ASSIGN(const auto head, read_some(source, offset, 10));
    if (head.size() < 10 || !has_tag(head, 0, "ID3")) break;
    std::int64_t length = 10;
    for (std::size_t k = 6; k < 10; ++k) {
      if (head[k] >= 0x80) return corrupt("its ID3 tag has a length that is none");
      length += std::int64_t{head[k]} << (7 * (9 - k));
    }
    if ((head[5] & 0x10) != 0) length += 10;  // a footer repeats the header
    offset += length;
  }
  return offset;
}

Error corrupt(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }

}  // namespace isocost
