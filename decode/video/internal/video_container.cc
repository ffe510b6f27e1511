#include "decode/video/internal/video_container.h"

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
#include "decode/bytes/media_bytes.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

Error cut_off(std::int64_t said, std::int64_t there) {
  return corrupt("cut off: its header says " + std::to_string(said) + " bytes, " +
                 std::to_string(there) + " are there");
}

/// Walks MP4 boxes (ISO/IEC 14496-12), down to the sample tables.
class Mp4Boxes {
 public:
  explicit Mp4Boxes(const ByteSource& source) : source_(source) {}

  Result<VideoContainer> run() {
    ISOCOST_TRY(walk(0, source_.size(), 0));
    if (!moov_) return corrupt("cut off: it has no MP4 'moov' box");
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
    if (size > end - at) return cut_off(at + size, end);
    box.end = at + size;
    return box;
  }

  Status walk(std::int64_t at, std::int64_t end, int depth) {
    while (at < end) {
      if (++boxes_ > kMaxBoxes) return corrupt("it has too many MP4 boxes");
      if (depth > 0 && end - at < 8) return {};  // some writers end a list with four zero bytes
      ISOCOST_ASSIGN(const Box box, read_box(at, end));
      if (at == 0 && depth == 0) ISOCOST_TRY(check_first(box));
      ISOCOST_TRY(visit(box, depth));
      at = box.end;
    }
    return {};
  }

  static Status check_first(const Box& box) {
    for (const std::string_view type : {"ftyp", "moov", "mdat", "wide", "free", "skip", "styp"}) {
      if (has_tag(box.head, 4, type)) return {};
    }
    return corrupt("it is no MP4 file");
  }

  Status visit(const Box& box, int depth) {
    constexpr std::array<std::string_view, 5> kParents = {"moov", "trak", "mdia", "minf", "stbl"};
    if (has_tag(box.head, 4, "moov")) moov_ = true;
    if (has_tag(box.head, 4, "moof") || has_tag(box.head, 4, "mvex")) found_.fragmented = true;
    if (has_tag(box.head, 4, "stsz")) ISOCOST_TRY(check_sizes(box));
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
    if (!total || *total > source_.size()) {
      return cut_off(total.value_or(INT64_MAX), source_.size());
    }
    return {};
  }

  const ByteSource& source_;
  VideoContainer found_;
  bool moov_ = false;
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

Result<VideoContainer> check_matroska(const ByteSource& source) {
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
  if (size->value && *size->value > source.size() - body) {
    return cut_off(body + *size->value, source.size());
  }
  return VideoContainer{};
}

Result<VideoContainer> check_avi(const ByteSource& source) {
  ISOCOST_ASSIGN(const auto head, read_some(source, 0, 12));
  if (!has_tag(head, 0, "RIFF") || !has_tag(head, 8, "AVI ")) return corrupt("it is no AVI file");
  const std::int64_t said = 8 + static_cast<std::int64_t>(little_endian(head, 4, 4));
  if (said > source.size()) return cut_off(said, source.size());
  return VideoContainer{};
}

}  // namespace

Result<VideoContainer> check_video_container(const ByteSource& source, MediaFormat format) {
  switch (format) {
    case MediaFormat::kMp4:
      return Mp4Boxes(source).run();
    case MediaFormat::kMatroska:
      return check_matroska(source);
    case MediaFormat::kAvi:
      return check_avi(source);
    default:
      return Error(ErrorCode::kInvalidArgument, "not a video container");
  }
}

}  // namespace isocost
