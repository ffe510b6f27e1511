// Reads headers of JPEG, ITU-T T.81: markers and segments up to the first scan.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_headers.h"
#include "decode/image/internal/orientation_tags.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

constexpr std::uint8_t kSof0 = 0xC0;
constexpr std::uint8_t kSof2 = 0xC2;
constexpr std::uint8_t kSof9 = 0xC9;
constexpr std::uint8_t kSof10 = 0xCA;
constexpr std::uint8_t kDht = 0xC4;
constexpr std::uint8_t kJpg = 0xC8;
constexpr std::uint8_t kDac = 0xCC;
constexpr std::uint8_t kSoi = 0xD8;
constexpr std::uint8_t kEoi = 0xD9;
constexpr std::uint8_t kSos = 0xDA;
constexpr std::uint8_t kApp1 = 0xE1;

// Most bytes between segments that are skipped; libjpeg skips any number.
constexpr std::int64_t kMostStray = 64 << 10;

bool is_frame_header(std::uint8_t marker) {
  return marker >= kSof0 && marker <= 0xCF && marker != kDht && marker != kJpg && marker != kDac;
}

bool stands_alone(std::uint8_t marker) {
  return marker == 0x01 || (marker >= 0xD0 && marker <= kSoi);
}

class JpegHeader {
 public:
  explicit JpegHeader(HeaderWindow& window) : window_(window) {}

  Result<JpegFrame> run() {
    for (;;) {
      ISOCOST_ASSIGN(const std::uint8_t marker, next_marker());
      if (marker == kEoi) return corrupt("it ends before a picture");
      if (stands_alone(marker)) continue;
      ISOCOST_ASSIGN(const ByteView head, window_.all(at_, 2, "a JPEG segment"));
      const auto length = static_cast<std::int64_t>(big_endian(head, 0, 2));
      if (length < 2) return corrupt("it has a JPEG segment of an impossible length");
      const std::int64_t end = at_ + length;
      if (end > window_.size()) return corrupt("cut off within a JPEG segment");
      if (marker == kSos) return scan(end);
      ISOCOST_TRY(segment(marker, end));
      at_ = end;
    }
  }

 private:
  Result<std::uint8_t> next_marker() {
    // A marker is neither 0 nor FF; any number of FF may precede it as filling.
    for (;; ++at_) {
      ISOCOST_ASSIGN(const ByteView bytes, window_.all(at_, 2, "its JPEG header"));
      if (bytes[0] == 0xFF && bytes[1] == 0xFF) continue;
      if (bytes[0] == 0xFF && bytes[1] != 0) {
        at_ += 2;
        return bytes[1];
      }
      if (++stray_ > kMostStray) return corrupt("its JPEG header is damaged");
    }
  }

  Status segment(std::uint8_t marker, std::int64_t end) {
    if (is_frame_header(marker)) return frame(marker, end);
    if (marker != kApp1) return {};
    constexpr std::string_view kExif("Exif\0\0", 6);
    constexpr std::string_view kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
    const std::int64_t begin = at_ + 2;
    ISOCOST_ASSIGN(const ByteView name, window_.some(begin, kXmp.size()));
    if (has_tag(name, 0, kExif) && !seen_exif_) {
      seen_exif_ = true;
      ISOCOST_ASSIGN(tags_.exif, exif_orientation(window_, begin, end));
    } else if (has_tag(name, 0, kXmp)) {
      ISOCOST_ASSIGN(tags_.xmp, xmp_orientation(window_, begin + std::int64_t{kXmp.size()}, end));
    }
    return {};
  }

  Status frame(std::uint8_t marker, std::int64_t end) {
    if (components_ != 0) return corrupt("it has two JPEG frame headers");
    if (marker > kSof2 && marker != kSof9 && marker != kSof10) {
      return Error(ErrorCode::kUnsupported, "lossless or hierarchical JPEG is not decoded");
    }
    constexpr std::int64_t kFixed = 8;
    ISOCOST_ASSIGN(const ByteView bytes, window_.all(at_, kFixed, "its JPEG frame header"));
    components_ = bytes[7];
    if (end - at_ != kFixed + std::int64_t{3} * components_)
      return corrupt("its JPEG frame header is damaged");
    if (bytes[2] != 8) {
      return Error(ErrorCode::kUnsupported,
                   "JPEG of " + std::to_string(bytes[2]) + " bits a component is not decoded");
    }
    if (components_ != 1 && components_ != 3 && components_ != 4) {
      return Error(ErrorCode::kUnsupported,
                   "JPEG of " + std::to_string(components_) + " components is not decoded");
    }
    shape_.height = static_cast<std::int32_t>(big_endian(bytes, 3, 2));
    shape_.width = static_cast<std::int32_t>(big_endian(bytes, 5, 2));
    progressive_ = marker == kSof2 || marker == kSof10;
    return {};
  }

  Result<JpegFrame> scan(std::int64_t end) {
    if (components_ == 0) return corrupt("it has no JPEG frame header");
    ISOCOST_ASSIGN(const ByteView bytes, window_.all(at_, 3, "its JPEG scan header"));
    if (end - at_ != 6 + 2 * std::int64_t{bytes[2]}) {
      return corrupt("its JPEG scan header is damaged");
    }
    if (end >= window_.size()) return corrupt("cut off before its JPEG picture");
    // Scans that are not decoded together are decoded row by row, and only a few rows are held.
    const bool together = progressive_ || bytes[2] < components_;
    shape_.channels = together ? components_ : 0;
    shape_.orientation = tags_.orientation();
    return JpegFrame{shape_, components_, end};
  }

  HeaderWindow& window_;
  PartShape shape_;
  OrientationTags tags_;
  std::int64_t at_ = 2;  ///< after the start-of-image marker
  std::int64_t stray_ = 0;
  std::int32_t components_ = 0;
  bool progressive_ = false;
  bool seen_exif_ = false;
};

}  // namespace

Result<JpegFrame> read_jpeg_frame(HeaderWindow& window) { return JpegHeader(window).run(); }

Result<PartShape> read_jpeg_header(HeaderWindow& window, std::int64_t /*max_pixels*/) {
  ISOCOST_ASSIGN(const JpegFrame frame, read_jpeg_frame(window));
  return frame.shape;
}

}  // namespace isocost
