#include "decode/bytes/ogg_pages.h"

#include <algorithm>
#include <limits>
#include <string>

namespace isocost {
namespace {

/// Reads the header of the page at `offset`, and no byte behind it: a page may be 64 KiB.
Result<OggPage> read_page_header(const ByteSource& source, std::int64_t offset) {
  ISOCOST_ASSIGN(auto bytes, read_some(source, offset, kOggPageHeader));
  if (bytes.size() == kOggPageHeader) {
    ISOCOST_ASSIGN(const auto segments,
                   read_some(source, offset + static_cast<std::int64_t>(kOggPageHeader),
                             bytes[kOggPageHeader - 1]));
    bytes.insert(bytes.end(), segments.begin(), segments.end());
  }
  const auto page = parse_ogg_page(bytes, 0);
  if (!page || static_cast<std::int64_t>(page->bytes) > source.size() - offset) {
    return broken_ogg_page(offset);
  }
  return *page;
}

/// Finds the last page by its header, searched backwards: first in a small tail, then in one as
/// large as a page can be.
Result<OggPage> page_at_end(const ByteSource& source) {
  for (const std::size_t tail : {std::size_t{6} << 10, kMaxOggPage}) {
    const std::int64_t start =
        std::max<std::int64_t>(0, source.size() - static_cast<std::int64_t>(tail));
    ISOCOST_ASSIGN(const auto bytes, read_some(source, start, tail));
    for (std::size_t at = bytes.size(); at-- > 0;) {
      if (bytes[at] != 'O') continue;
      const auto page = parse_ogg_page(bytes, at);
      if (page && page->bytes == bytes.size() - at) return *page;
    }
  }
  return corrupt("cut off: no Ogg page ends where the file ends");
}

}  // namespace

std::optional<OggPage> parse_ogg_page(ByteView bytes, std::size_t at) {
  if (!has_tag(bytes, at, "OggS") || bytes.size() - at < kOggPageHeader) return std::nullopt;
  if (bytes[at + 4] != 0) return std::nullopt;
  const std::size_t segments = bytes[at + kOggPageHeader - 1];
  if (bytes.size() - at < kOggPageHeader + segments) return std::nullopt;
  OggPage page;
  page.granule = little_endian(bytes, at + 6, 8);
  page.serial = little_endian(bytes, at + 14, 4);
  page.begins_stream = (bytes[at + 5] & 2) != 0;
  page.header_bytes = kOggPageHeader + segments;
  page.bytes = page.header_bytes;
  for (std::size_t i = 0; i < segments; ++i) page.bytes += bytes[at + kOggPageHeader + i];
  return page;
}

Result<OggPage> last_ogg_page(const ByteSource& source) {
  ISOCOST_ASSIGN(const OggPage last, page_at_end(source));
  if (last.granule > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return corrupt("cut off: its last Ogg page ends within a packet");
  }
  return last;
}

Result<bool> is_chained_ogg(const ByteSource& source) {
  bool is_behind_data = false;
  std::int64_t offset = 0;
  while (offset < source.size()) {
    ISOCOST_ASSIGN(const OggPage page, read_page_header(source, offset));
    if (page.begins_stream && is_behind_data) return true;
    is_behind_data = is_behind_data || !page.begins_stream;
    offset += static_cast<std::int64_t>(page.bytes);
  }
  return false;
}

Error broken_ogg_page(std::int64_t offset) {
  return corrupt("its Ogg page at byte " + std::to_string(offset) + " is broken or cut off");
}

}  // namespace isocost
