#include "decode/bytes/media_container.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/checked.h"
#include "base/result.h"
#include "decode/bytes/internal/fragments.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/ogg_pages.h"
#include "decode/shape/media_formats.h"

namespace isocost {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 62;  ///< Sums with offsets still fit.

/// `said` is more than `there`.
Error cut_off(std::int64_t said, std::int64_t there) {
  return corrupt("cut off: its header says " + std::to_string(said) + " bytes, " +
                 std::to_string(there) + " are there");
}

/// Returns the error for files one after another, of which a demuxer would read only the first.
Error several(const std::string& what) {
  return {ErrorCode::kUnsupported,
          "it has several " + what + " one after another: give each a file"};
}

/// Walks MP4 boxes (ISO/IEC 14496-12), down to the sample tables.
class Mp4Boxes {
 public:
  explicit Mp4Boxes(const ByteSource& source) : source_(source) {}

  Result<MediaContainer> run() {
    ISOCOST_TRY(walk(0, source_.size(), 0));
    if (!moov_) return corrupt("cut off: it has no MP4 'moov' box");
    ISOCOST_TRY(check_fragments(source_));
    return found_;
  }

 private:
  static constexpr int kMaxBoxes = 100'000;
  static constexpr int kMaxDepth = 6;

  struct Box {
    std::int64_t body = 0;
    std::int64_t end = 0;
    std::vector<std::uint8_t> head;  ///< 32 bytes, or as many as there are
  };

  Result<Box> read_box(std::int64_t at, std::int64_t end) const {
    Box box;
    ISOCOST_ASSIGN(box.head, read_some(source_, at, 32));
    if (end - at < 8 || box.head.size() < 8) return corrupt("cut off within an MP4 box header");
    std::int64_t size = static_cast<std::int64_t>(big_endian(box.head, 0, 4));
    box.body = at + 8;
    if (size == 1) {
      if (box.head.size() < 16) return corrupt("cut off within an MP4 box header");
      const std::uint64_t wide = big_endian(box.head, 8, 8);
      size = wide >> 62 == 0 ? static_cast<std::int64_t>(wide) : -1;
      box.body = at + 16;
    } else if (size == 0) {
      size = end - at;  // to the end of its parent
    }
    if (size < box.body - at) return corrupt("it has an MP4 box of an impossible size");
    if (size > end - at && end < source_.size()) {
      return corrupt("its MP4 box at byte " + std::to_string(at) +
                     " is larger than the one that holds it: it is damaged");
    }
    if (size > end - at) return cut_off(at + size, end);
    box.end = at + size;
    return box;
  }

  Status walk(std::int64_t at, std::int64_t end, int depth) {
    while (at < end) {
      if (++boxes_ > kMaxBoxes) return corrupt("it has too many MP4 boxes");
      if (depth > 0 && end - at < 8) return {};  // some writers end a list with four zero bytes
      if (depth == 0 && moov_ && mdat_ && !found_.fragmented) {
        ISOCOST_ASSIGN(const auto head, read_some(source_, at, 8));
        if (!begins_box(head)) return {};  // a tag, or other bytes after the video
      }
      ISOCOST_ASSIGN(const Box box, read_box(at, end));
      if (at == 0 && depth == 0) ISOCOST_TRY(check_first(box));
      ISOCOST_TRY(visit(box, depth));
      at = box.end;
    }
    return {};
  }

  /// Returns whether a box that a file may have at its outermost level begins here.
  static bool begins_box(ByteView head) {
    constexpr auto kTypes = std::to_array<std::string_view>(
        {"ftyp", "moov", "mdat", "free", "skip", "wide", "uuid", "moof", "mfra", "meta", "udta",
         "sidx", "ssix", "styp", "emsg", "prft", "pdin", "pnot", "bloc"});
    return std::ranges::any_of(kTypes, [&](auto type) { return has_tag(head, 4, type); });
  }

  static Status check_first(const Box& box) {
    for (const std::string_view type : {"ftyp", "moov", "mdat", "wide", "free", "skip", "styp"}) {
      if (has_tag(box.head, 4, type)) return {};
    }
    return corrupt("it is no MP4 file");
  }

  Status visit(const Box& box, int depth) {
    constexpr std::array<std::string_view, 5> kParents = {"moov", "trak", "mdia", "minf", "stbl"};
    if (has_tag(box.head, 4, "moov")) {
      if (moov_ && !found_.fragmented) return several("MP4 files");
      moov_ = true;
    }
    if (has_tag(box.head, 4, "mdat")) mdat_ = true;
    if (has_tag(box.head, 4, "moof") || has_tag(box.head, 4, "mvex")) found_.fragmented = true;
    if (has_tag(box.head, 4, "stsz")) ISOCOST_TRY(check_sizes(box));
    // The first entry's type stands behind the box's header, flags, and the counts of both.
    if (has_tag(box.head, 4, "stsd")) {
      found_.encrypted_video |= has_tag(box.head, 20, "encv");
      found_.encrypted_sound |= has_tag(box.head, 20, "enca");
    }
    const bool parent = std::any_of(kParents.begin(), kParents.end(), [&](std::string_view type) {
      return has_tag(box.head, 4, type);
    });
    return parent && depth < kMaxDepth ? walk(box.body, box.end, depth + 1) : Status{};
  }

  /// Checks a table of sizes. One of samples of equal size takes no bytes itself, so its count
  /// could be anything.
  Status check_sizes(const Box& box) const {
    const auto at = box.head.size() >= 32 ? std::size_t{8} : box.head.size();
    if (at + 12 > box.head.size() || box.end - box.body < 12) return {};
    const auto each = static_cast<std::int64_t>(big_endian(box.head, at + 4, 4));
    const auto count = static_cast<std::int64_t>(big_endian(box.head, at + 8, 4));
    const auto total = checked_product(each, count);
    if (!total) return corrupt("its MP4 table of sizes says more bytes than a file can have");
    if (*total > source_.size()) return cut_off(*total, source_.size());
    return {};
  }

  const ByteSource& source_;
  MediaContainer found_;
  bool moov_ = false;
  bool mdat_ = false;
  int boxes_ = 0;
};

/// An EBML variable-length size at `at`: its value, nothing for "unknown", and its length.
struct EbmlSize {
  std::optional<std::int64_t> value;
  std::size_t length = 0;
};

std::optional<EbmlSize> parse_ebml_size(ByteView bytes, std::size_t at) {
  if (at >= bytes.size() || bytes[at] == 0) return std::nullopt;
  EbmlSize size;
  size.length = 1;
  while ((bytes[at] & (0x80U >> (size.length - 1))) == 0) ++size.length;
  if (bytes.size() - at < size.length) return std::nullopt;
  const std::uint64_t mask = (std::uint64_t{1} << (7 * size.length)) - 1;
  const std::uint64_t value = big_endian(bytes, at, size.length) & mask;
  if (value != mask) size.value = static_cast<std::int64_t>(value);
  return size;
}

Result<MediaContainer> check_matroska(const ByteSource& source) {
  ISOCOST_ASSIGN(const auto head, read_some(source, 0, 256));
  if (!has_tag(head, 0, "\x1A\x45\xDF\xA3")) return corrupt("it is no Matroska or WebM file");
  const auto header = parse_ebml_size(head, 4);
  if (!header || !header->value) return corrupt("cut off within its Matroska header");
  const std::int64_t segment_at = 4 + static_cast<std::int64_t>(header->length) + *header->value;
  ISOCOST_ASSIGN(const auto segment, read_some(source, segment_at, 12));
  if (!has_tag(segment, 0, "\x18\x53\x80\x67")) return corrupt("it has no Matroska segment");
  const auto size = parse_ebml_size(segment, 4);
  if (!size) return corrupt("cut off within its Matroska segment header");
  const std::int64_t body = segment_at + 4 + static_cast<std::int64_t>(size->length);
  if (!size->value) return MediaContainer{};
  if (*size->value > source.size() - body) return cut_off(body + *size->value, source.size());
  ISOCOST_ASSIGN(const auto behind, read_some(source, body + *size->value, 4));
  if (has_tag(behind, 0, "\x1A\x45\xDF\xA3")) return several("Matroska files");
  return MediaContainer{};
}

Result<MediaContainer> check_avi(const ByteSource& source) {
  ISOCOST_ASSIGN(const auto head, read_some(source, 0, 12));
  if (!has_tag(head, 0, "RIFF") || !has_tag(head, 8, "AVI ")) return corrupt("it is no AVI file");
  const std::int64_t said = 8 + static_cast<std::int64_t>(little_endian(head, 4, 4));
  if (said > source.size()) return cut_off(said, source.size());
  // A list of the type AVIX continues with the same video.
  ISOCOST_ASSIGN(const auto behind, read_some(source, said + said % 2, 12));
  if (has_tag(behind, 0, "RIFF") && has_tag(behind, 8, "AVI ")) return several("AVI files");
  return MediaContainer{};
}

/// Checks an AIFF, and finds its samples. Programs that write to a pipe state sizes near 2 GiB.
Result<MediaContainer> check_aiff(const ByteSource& source) {
  constexpr std::int64_t kUnknown = 0x7F00'0000;
  constexpr int kMaxChunks = 1000;
  ISOCOST_ASSIGN(const auto head, read_some(source, 0, 12));
  if (!has_tag(head, 0, "FORM") || head.size() < 12) return corrupt("it is no AIFF file");
  const auto size = static_cast<std::int64_t>(big_endian(head, 4, 4));
  // Some writers count a byte behind an odd number of them, and do not write it.
  if (size < kUnknown && 8 + size > source.size() + 1) return cut_off(8 + size, source.size());
  ISOCOST_ASSIGN(const auto behind, read_some(source, 8 + size + size % 2, 12));
  if (has_tag(behind, 0, "FORM") && has_tag(behind, 8, "AIF")) return several("AIFF files");
  MediaContainer container;
  std::int64_t at = 12;
  for (int i = 0; i < kMaxChunks && at < source.size(); ++i) {
    ISOCOST_ASSIGN(const auto chunk, read_some(source, at, 16));
    if (chunk.size() < 8) break;
    const auto length = static_cast<std::int64_t>(big_endian(chunk, 4, 4));
    const std::int64_t body = at + 8;
    if (has_tag(chunk, 0, "SSND") && chunk.size() == 16) {
      if (length < kUnknown && body + length > source.size()) {
        return cut_off(body + length, source.size());
      }
      const auto skipped = 8 + static_cast<std::int64_t>(big_endian(chunk, 8, 4));
      container.sound_bytes =
          std::max<std::int64_t>(0, std::min(length, source.size() - body) - skipped);
      break;
    }
    at = body + length + length % 2;
  }
  return container;
}

/// Checks the chunks of a CAF; the last one's size may be unknown, and is then -1.
Result<MediaContainer> check_caf(const ByteSource& source) {
  constexpr int kMaxChunks = 1000;
  constexpr std::size_t kHeader = 12;
  std::int64_t at = 8;
  for (int i = 0; i < kMaxChunks && at < source.size(); ++i) {
    ISOCOST_ASSIGN(const auto head, read_some(source, at, kHeader));
    if (head.size() < kHeader) return corrupt("cut off within a CAF chunk header");
    const auto size = static_cast<std::int64_t>(big_endian(head, 4, 8));
    if (size == -1 && has_tag(head, 0, "data")) return MediaContainer{};
    if (size < 0) return corrupt("it has a CAF chunk of an impossible size");
    at += kHeader;
    if (size > source.size() - at) return cut_off(at + std::min(size, kLargest), source.size());
    at += size;
  }
  return at < source.size() ? Result<MediaContainer>(corrupt("it has too many CAF chunks"))
                            : MediaContainer{};
}

/// Checks that no other FLV stands behind the tags of the first one.
Result<MediaContainer> check_flv(const ByteSource& source) {
  constexpr std::int64_t kTagHeader = 11;
  constexpr std::int64_t kBackPointer = 4;
  ISOCOST_ASSIGN(auto head, read_some(source, 0, 9));
  if (!has_tag(head, 0, "FLV") || head.size() < 9) return corrupt("it is no FLV file");
  std::int64_t at = static_cast<std::int64_t>(big_endian(head, 5, 4)) + kBackPointer;
  while (at < source.size()) {
    ISOCOST_ASSIGN(head, read_some(source, at, kTagHeader));
    if (has_tag(head, 0, "FLV\x01")) return several("FLV files");
    if (head.size() < kTagHeader) break;
    at += kTagHeader + static_cast<std::int64_t>(big_endian(head, 1, 3)) + kBackPointer;
  }
  return MediaContainer{};
}

/// Checks that only indexes follow the data object of ASF.
Result<MediaContainer> check_behind_asf(const ByteSource& source, std::int64_t at) {
  constexpr std::string_view kHeader = "\x30\x26\xB2\x75\x8E\x66\xCF\x11";
  constexpr int kMaxObjects = 100;
  for (int i = 0; i < kMaxObjects && at < source.size(); ++i) {
    ISOCOST_ASSIGN(const auto head, read_some(source, at, 24));
    if (has_tag(head, 0, kHeader)) return several("ASF files");
    if (head.size() < 24) break;
    const std::uint64_t size = little_endian(head, 16, 8);
    if (size < 24 || size > static_cast<std::uint64_t>(source.size() - at)) break;
    at += static_cast<std::int64_t>(size);
  }
  return MediaContainer{};
}

/// Checks that the header and the data object of ASF lie in the source; live streams do not know
/// the size of the second.
Result<MediaContainer> check_asf(const ByteSource& source) {
  constexpr std::int64_t kObjectHeader = 24;
  ISOCOST_ASSIGN(const auto head, read_some(source, 0, kObjectHeader));
  if (head.size() < kObjectHeader) return corrupt("cut off within its ASF header");
  const std::uint64_t header = little_endian(head, 16, 8);
  if (header == static_cast<std::uint64_t>(source.size())) {
    return corrupt("cut off: it has no ASF data behind its header");
  }
  if (header > static_cast<std::uint64_t>(source.size())) {
    return cut_off(static_cast<std::int64_t>(std::min<std::uint64_t>(header, kLargest)),
                   source.size());
  }
  const auto data_at = static_cast<std::int64_t>(header);
  ISOCOST_ASSIGN(const auto data, read_some(source, data_at, kObjectHeader));
  if (data.size() < kObjectHeader) return corrupt("cut off: it has no ASF data");
  const std::uint64_t size = little_endian(data, 16, 8);
  const bool is_known = size >= kObjectHeader && size < static_cast<std::uint64_t>(kLargest);
  if (is_known && static_cast<std::int64_t>(size) > source.size() - data_at) {
    return cut_off(data_at + static_cast<std::int64_t>(size), source.size());
  }
  return is_known ? check_behind_asf(source, data_at + static_cast<std::int64_t>(size))
                  : MediaContainer{};
}

/// Checks that a page ends where the source does: the demuxer drops a page that is cut off.
Result<MediaContainer> check_ogg(const ByteSource& source) {
  ISOCOST_ASSIGN(const auto head, read_some(source, 0, 4));
  if (!has_tag(head, 0, "OggS")) return corrupt("it is no Ogg file");
  ISOCOST_TRY(last_ogg_page(source));
  return MediaContainer{};
}

}  // namespace

Error encrypted(const std::string& what) {
  return {ErrorCode::kUnsupported,
          "its " + what +
              " is encrypted: decrypt it (ffmpeg -decryption_key KEY -i FILE -c copy "
              "NEW)"};
}

Result<MediaContainer> check_media_container(const ByteSource& source, MediaFormat format) {
  switch (format) {
    case MediaFormat::kMp4:
    case MediaFormat::kM4a:
      return Mp4Boxes(source).run();
    case MediaFormat::kMatroska:
    case MediaFormat::kMka:
      return check_matroska(source);
    case MediaFormat::kAvi:
    case MediaFormat::kAviSound:
      return check_avi(source);
    case MediaFormat::kWmv:
    case MediaFormat::kWma:
      return check_asf(source);
    case MediaFormat::kFlv:
    case MediaFormat::kFlvSound:
      return check_flv(source);
    case MediaFormat::kAiff:
      return check_aiff(source);
    case MediaFormat::kCaf:
      return check_caf(source);
    case MediaFormat::kOgv:
    case MediaFormat::kOggSound:
      return check_ogg(source);
    default:
      return MediaContainer{};
  }
}

}  // namespace isocost
