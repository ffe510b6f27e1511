#include "decode/image/internal/orientation_tags.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {
namespace {

constexpr std::size_t kEntryBytes = 12;

// Reads a TIFF block within a window.
class Tiff {
 public:
  Tiff(HeaderWindow& window, std::int64_t begin, std::int64_t end)
      : window_(window), begin_(begin), end_(end) {}

  // Returns the offset of the first directory; nothing if this is no TIFF.
  Result<std::optional<std::int64_t>> directory() {
    ISOCOST_ASSIGN(const ByteView bytes, part(0, 8));
    if (bytes.empty()) return std::nullopt;
    is_little_ = has_tag(bytes, 0, "II");
    if (!is_little_ && !has_tag(bytes, 0, "MM")) return std::nullopt;
    if (number(bytes, 2, 2) != 42) return std::nullopt;
    return static_cast<std::int64_t>(number(bytes, 4, 4));
  }

  // Returns `n` bytes at an offset from the block's begin; none where the block ends before.
  Result<ByteView> part(std::int64_t offset, std::size_t n) {
    if (begin_ + offset + static_cast<std::int64_t>(n) > end_) return ByteView();
    ISOCOST_ASSIGN(const ByteView bytes, window_.some(begin_ + offset, n));
    return bytes.size() < n ? ByteView() : bytes;
  }

  std::uint64_t number(ByteView from, std::size_t at, std::size_t n) const {
    return is_little_ ? little_endian(from, at, n) : big_endian(from, at, n);
  }

  // Returns the first value of a directory's entry; nothing if it is no whole number.
  Result<std::optional<std::int64_t>> value(ByteView entry) {
    const std::uint64_t type = number(entry, 2, 2);
    const std::uint64_t count = number(entry, 4, 4);
    const std::size_t bytes = value_bytes(type);
    if (bytes == 0 || count == 0) return std::nullopt;
    std::array<std::uint8_t, 8> raw{};
    if (bytes * count <= 4) {
      std::ranges::copy(entry.subspan(8, bytes), raw.begin());
    } else {
      ISOCOST_ASSIGN(const ByteView apart,
                     part(static_cast<std::int64_t>(number(entry, 8, 4)), bytes));
      if (apart.empty()) return std::nullopt;
      std::ranges::copy(apart, raw.begin());
    }
    if (bytes < 8) return static_cast<std::int64_t>(number(raw, 0, bytes));
    const std::uint64_t over = number(raw, 4, 4);
    const std::uint64_t under = number(raw, 0, 4);
    if (over == 0 || under % over != 0) return std::nullopt;
    return static_cast<std::int64_t>(under / over);
  }

 private:
  // Returns the bytes of a value of TIFF's type; 0 for types that are no numbers. Numbers below 0
  // are no orientations, so that signed types need no case of their own.
  static std::size_t value_bytes(std::uint64_t type) {
    switch (type) {
      case 6:  // SBYTE
        return 1;
      case 3:  // SHORT
      case 8:  // SSHORT
        return 2;
      case 4:   // LONG
      case 9:   // SLONG
      case 13:  // IFD
        return 4;
      case 5:   // RATIONAL
      case 10:  // SRATIONAL
        return 8;
      default:
        return 0;
    }
  }

  HeaderWindow& window_;
  std::int64_t begin_;
  std::int64_t end_;
  bool is_little_ = true;
};

}  // namespace

std::uint8_t OrientationTags::orientation() const {
  const std::int64_t stated = exif.value_or(xmp.value_or(1));
  return stated >= 1 && stated <= 8 ? static_cast<std::uint8_t>(stated) : std::uint8_t{1};
}

Result<std::optional<std::int64_t>> exif_orientation(HeaderWindow& window, std::int64_t begin,
                                                     std::int64_t end) {
  constexpr std::uint64_t kOrientationTag = 0x0112;
  // Some writers keep the name that JPEG puts before the block.
  ISOCOST_ASSIGN(const ByteView name, window.some(begin, 6));
  if (has_tag(name, 0, std::string_view("Exif\0\0", 6))) begin += 6;
  Tiff tiff(window, begin, end);
  ISOCOST_ASSIGN(const std::optional<std::int64_t> directory, tiff.directory());
  if (!directory) return std::nullopt;
  ISOCOST_ASSIGN(const ByteView head, tiff.part(*directory, 2));
  if (head.empty()) return std::nullopt;
  const std::uint64_t entries = tiff.number(head, 0, 2);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const auto at = *directory + 2 + static_cast<std::int64_t>(i * kEntryBytes);
    ISOCOST_ASSIGN(const ByteView bytes, tiff.part(at, kEntryBytes));
    if (bytes.empty()) break;
    if (tiff.number(bytes, 0, 2) != kOrientationTag) continue;
    std::array<std::uint8_t, kEntryBytes> entry{};  // A value apart moves the window.
    std::ranges::copy(bytes, entry.begin());
    return tiff.value(entry);
  }
  return std::nullopt;
}

Result<std::optional<std::int64_t>> xmp_orientation(HeaderWindow& window, std::int64_t begin,
                                                    std::int64_t end) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  std::string packet;
  for (const std::int64_t stop = std::min(end, begin + kMost); begin < stop;) {
    const auto most = static_cast<std::size_t>(stop - begin);
    ISOCOST_ASSIGN(const ByteView bytes, window.some(begin, std::min(most, HeaderWindow::kBytes)));
    if (bytes.empty()) break;
    packet.insert(packet.end(), bytes.begin(), bytes.end());
    begin += static_cast<std::int64_t>(bytes.size());
  }
  return xmp_orientation(packet);
}

std::optional<std::int64_t> xmp_orientation(std::string_view packet) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (std::size_t at = packet.find(kName); at != std::string_view::npos;
       at = packet.find(kName, at + 1)) {
    std::string_view rest = packet.substr(at + kName.size());
    // It is an attribute or an element.
    if (rest.starts_with("=\"")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with('>')) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') return rest[0] - '0';
  }
  return std::nullopt;
}

}  // namespace isocost
