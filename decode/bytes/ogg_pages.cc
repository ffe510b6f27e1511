#include "decode/bytes/ogg_pages.h"

#include <algorithm>
#include <limits>
#include <string>

namespace isocost {
namespace {

/// Reads the header of the page at `offset`, and no byte after it: a page may be 64 KiB.
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

/// Returns the page that ends last among those that end at `from` to `to`, searched backwards:
/// first in a small tail, then in one as large as a page can be. Returns nothing if none does.
Result<std::optional<LastOggPage>> page_ending(const ByteSource& source, std::int64_t from,
                                               std::int64_t to) {
  for (const std::size_t tail : {std::size_t{6} << 10, kMaxOggPage}) {
    const std::int64_t start = std::max<std::int64_t>(0, from - static_cast<std::int64_t>(tail));
    ISOCOST_ASSIGN(const auto bytes,
                   read_some(source, start, static_cast<std::size_t>(to - start)));
    for (std::size_t at = bytes.size(); at-- > 0;) {
      if (bytes[at] != 'O') continue;
      const auto page = parse_ogg_page(bytes, at);
      if (!page || page->bytes > bytes.size() - at) continue;
      const std::int64_t end = start + static_cast<std::int64_t>(at + page->bytes);
      if (end >= from) return std::optional(LastOggPage{*page, end});
    }
  }
  return std::optional<LastOggPage>();
}

/// Returns the offset after the last byte before `end` that is not zero, at most 64 KiB before it.
Result<std::int64_t> zeros_from(const ByteSource& source, std::int64_t end) {
  constexpr std::int64_t kMost = 64 << 10;
  const std::int64_t start = std::max<std::int64_t>(0, end - kMost);
  ISOCOST_ASSIGN(const auto bytes, read_some(source, start, static_cast<std::size_t>(end - start)));
  std::int64_t at = std::ssize(bytes);
  while (at > 0 && bytes[static_cast<std::size_t>(at - 1)] == 0) --at;
  return start + at;
}

/// Finds the last page, which ends where the source does, or before an ID3v1 tag or zeros.
Result<LastOggPage> page_at_end(const ByteSource& source) {
  constexpr std::int64_t kId3v1 = 128;
  ISOCOST_ASSIGN(const auto last, page_ending(source, source.size(), source.size()));
  if (last) return *last;
  std::int64_t end = source.size();
  ISOCOST_ASSIGN(const auto tag, read_some(source, std::max<std::int64_t>(0, end - kId3v1), 3));
  if (end > kId3v1 && has_tag(tag, 0, "TAG")) end -= kId3v1;
  ISOCOST_ASSIGN(const std::int64_t zeros, zeros_from(source, end));
  ISOCOST_ASSIGN(const auto page, page_ending(source, zeros, end));
  if (page) return *page;
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

Result<LastOggPage> last_ogg_page(const ByteSource& source) {
  ISOCOST_ASSIGN(const LastOggPage last, page_at_end(source));
  if (last.page.granule > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return corrupt("cut off: its last Ogg page ends within a packet");
  }
  return last;
}

Result<bool> is_chained_ogg(const ByteSource& source, std::int64_t end) {
  bool is_behind_data = false;
  std::int64_t offset = 0;
  while (offset < end) {
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
