#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/internal/audio_headers.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/ogg_pages.h"
#include "decode/shape/media_formats.h"

namespace isocost {
namespace {

struct Identification {
  AudioHeader header;
  std::uint64_t skipped = 0;  ///< Samples at the start that are decoded but not audible.
};

/// Parses the first packet of a stream. `bytes` begin with its page, and may end within it.
Result<Identification> parse_identification(ByteView bytes, const OggPage& page) {
  const std::size_t end = std::min(page.bytes, bytes.size());
  const ByteView packet = bytes.first(end).subspan(std::min(end, page.header_bytes));
  Identification id;
  if (has_tag(packet, 0, "\x01vorbis")) {
    if (packet.size() < 30) return corrupt("cut off within its Vorbis header");
    id.header.format = MediaFormat::kOggVorbis;
    id.header.channels = packet[11];
    id.header.sample_rate = static_cast<std::int64_t>(little_endian(packet, 12, 4));
    return id;
  }
  if (has_tag(packet, 0, "OpusHead")) {
    if (packet.size() < 19) return corrupt("cut off within its Opus header");
    if (packet[8] >= 16) return Error(ErrorCode::kUnsupported, "an Opus version of the future");
    id.header.format = MediaFormat::kOpus;
    id.header.channels = packet[9];
    id.header.sample_rate = 48'000;  // Opus granules always count at 48 kHz
    id.skipped = little_endian(packet, 10, 2);
    return id;
  }
  return Error(ErrorCode::kUnsupported, "its Ogg stream is neither Vorbis nor Opus");
}

std::int64_t audible(std::int64_t granule, const Identification& id) {
  return std::max<std::int64_t>(0, granule - static_cast<std::int64_t>(id.skipped));
}

constexpr std::size_t kMostLinks = 4096;

/// Returns the number of samples that a page states; -1 means a page on which no packet ends.
std::int64_t samples_of(const OggPage& page) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;  // sums over all links still fit
  return std::min(static_cast<std::int64_t>(page.granule), kMost);
}

Error too_many_links() { return corrupt("it has too many chained Ogg streams"); }

struct WalkedPage {
  OggPage header;
  ByteView bytes;
};

/// Reads the pages of a source one after another. Single-thread; the source must outlive it.
class PageWalk {
 public:
  explicit PageWalk(const ByteSource& source) : source_(source) {}

  /// Returns the offset after the page that was read last.
  std::int64_t offset() const { return offset_; }

  /// Returns the next page, whose bytes are valid until the next call.
  Result<WalkedPage> next() {
    auto page = parse_ogg_page(block_, at_);
    if (!page || page->bytes > block_.size() - at_) {
      ISOCOST_ASSIGN(block_, read_some(source_, offset_, kMaxOggPage));
      at_ = 0;
      page = parse_ogg_page(block_, at_);
    }
    if (!page || page->bytes > block_.size() - at_) {
      return broken_ogg_page(offset_);
    }
    const ByteView bytes = ByteView(block_).subspan(at_, page->bytes);
    at_ += page->bytes;
    offset_ += static_cast<std::int64_t>(page->bytes);
    return WalkedPage{*page, bytes};
  }

 private:
  const ByteSource& source_;
  std::vector<std::uint8_t> block_;
  std::size_t at_ = 0;
  std::int64_t offset_ = 0;
};

/// Adds up the lengths of chained streams, whose pages continue to `end`. `expected` is the first
/// one's header.
Result<AudioHeader> read_chain(const ByteSource& source, std::int64_t end,
                               const AudioHeader& expected) {
  AudioHeader header = expected;
  header.frames = 0;
  Identification id;
  std::int64_t granule = 0;  // the last of this stream
  std::size_t links = 0;
  PageWalk walk(source);
  while (walk.offset() < end) {
    ISOCOST_ASSIGN(const auto walked, walk.next());
    const auto& [page, bytes] = walked;
    if (page.begins_stream) {
      if (++links > kMostLinks) return too_many_links();
      header.frames += audible(std::exchange(granule, 0), id);
      ISOCOST_ASSIGN(id, parse_identification(bytes, page));
      const bool fits = id.header.format == header.format &&
                        id.header.sample_rate == header.sample_rate &&
                        id.header.channels == header.channels;
      if (!fits) {
        return Error(ErrorCode::kUnsupported,
                     "its chained Ogg streams have different codecs, rates or channels: give each "
                     "a file");
      }
    }
    granule = std::max(granule, samples_of(page));
  }
  header.frames += audible(granule, id);
  return header;
}

constexpr std::array<std::uint32_t, 256> make_checksum_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t r = i << 24;
    for (int bit = 0; bit < 8; ++bit) r = (r << 1) ^ ((r >> 31) != 0 ? 0x04C11DB7U : 0U);
    table[i] = r;
  }
  return table;
}
constexpr auto kChecksumTable = make_checksum_table();

/// Computes the page checksum: CRC-32 of polynomial 0x04C11DB7, most significant bit first, from 0.
std::uint32_t page_checksum(ByteView page) {
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < page.size(); ++i) {
    const std::uint8_t byte =
        i >= 22 && i < 26 ? 0 : page[i];  // the checksum's own field counts as zero
    crc = (crc << 8) ^ kChecksumTable[(crc >> 24) ^ byte];
  }
  return crc;
}

}  // namespace

Result<std::vector<OggLink>> check_ogg_pages(const ByteSource& source, std::int64_t samples) {
  ISOCOST_ASSIGN(const LastOggPage final_page, last_ogg_page(source));
  const std::int64_t end = final_page.end;
  std::vector<OggLink> links;
  std::int64_t before = 0;  // samples of the links before this one, about
  std::int64_t last = 0;
  PageWalk walk(source);
  while (walk.offset() < end) {
    ISOCOST_ASSIGN(const auto walked, walk.next());
    const auto& [page, bytes] = walked;
    const std::int64_t offset = walk.offset() - static_cast<std::int64_t>(bytes.size());
    if (page_checksum(bytes) != little_endian(bytes, 22, 4)) {
      return corrupt("its Ogg page at byte " + std::to_string(offset) +
                     " does not fit its checksum");
    }
    if (page.begins_stream || links.empty()) {
      if (!links.empty()) links.back().bytes = offset - links.back().offset;
      if (links.size() == kMostLinks) return too_many_links();
      links.push_back({offset, end - offset});
      before += std::exchange(last, 0);
    }
    const std::int64_t granule = samples_of(page);
    last = std::max(last, granule);
    if (granule > samples - before) break;
  }
  return links;
}

Result<AudioHeader> read_ogg_header(const ByteSource& source) {
  ISOCOST_ASSIGN(const auto head, read_some(source, 0, 512));
  if (!has_tag(head, 0, "OggS")) return corrupt("it is no Ogg stream");
  const auto first = parse_ogg_page(head, 0);
  if (!first || first->bytes > static_cast<std::uint64_t>(source.size())) {
    return corrupt("cut off within its first Ogg page");
  }
  ISOCOST_ASSIGN(Identification id, parse_identification(head, *first));
  ISOCOST_ASSIGN(const LastOggPage last, last_ogg_page(source));
  bool is_chained = last.page.serial != first->serial;
  if (!is_chained) {
    ISOCOST_ASSIGN(is_chained, is_chained_ogg(source, last.end));
  }
  if (is_chained) return read_chain(source, last.end, id.header);
  id.header.frames = audible(static_cast<std::int64_t>(last.page.granule), id);
  return id.header;
}

}  // namespace isocost
