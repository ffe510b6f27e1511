#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

constexpr std::size_t kOggPageHeader = 27;  ///< Bytes before the table of segments.
constexpr std::size_t kMaxOggPage = kOggPageHeader + 255 + std::size_t{255} * 255;

/// Header values of a page: RFC 3533.
struct OggPage {
  std::uint64_t granule = 0;
  std::uint64_t serial = 0;
  bool begins_stream = false;
  std::size_t header_bytes = 0;
  std::size_t bytes = 0;
};

/// Parses the header of the page at `at`; returns nothing for other bytes, or fewer than a header.
std::optional<OggPage> parse_ogg_page(ByteView bytes, std::size_t at);

/// The last page of a source.
struct LastOggPage {
  OggPage page;
  std::int64_t end = 0;  ///< Offset after it.
};

/// Returns the page that ends where the source does, or before an ID3v1 tag or up to 64 KiB of
/// zeros at its end. Errors: kCorrupt "cut off" if none does, or if no packet ends on it;
/// kIo.
Result<LastOggPage> last_ogg_page(const ByteSource& source);

/// Returns whether a stream begins before `end` after pages of another one, as in chained Ogg.
/// Serial numbers do not show it: files of one program may share them, and a file may follow
/// itself. Reads the page headers up to that page, of a single stream all of them: two small reads
/// a page, and about 1 % of the bytes. Errors: kCorrupt if a page is broken or cut off, kIo.
Result<bool> is_chained_ogg(const ByteSource& source, std::int64_t end);

/// Returns the error for a page that cannot be read.
Error broken_ogg_page(std::int64_t offset);

}  // namespace isocost
