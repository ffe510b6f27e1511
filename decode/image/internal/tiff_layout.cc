#include "decode/image/internal/tiff_layout.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/internal/orientation_tags.h"

namespace isocost {
namespace {

// The entries of a directory that matter here.
enum Tag : std::uint16_t {
  kWidth = 256,
  kHeight = 257,
  kBitsPerSample = 258,
  kCompression = 259,
  kPhotometric = 262,
  kOrientation = 274,
  kSamplesPerPixel = 277,
  kRowsPerStrip = 278,
  kPlanes = 284,
  kTileWidth = 322,
  kTileHeight = 323,
  kTileOffsets = 324,
  kExtraSamples = 338,
  kSampleFormat = 339,
  kXmp = 700,
};
constexpr std::array kTags = {
    kWidth,       kHeight,          kBitsPerSample, kCompression,  kPhotometric,
    kOrientation, kSamplesPerPixel, kRowsPerStrip,  kPlanes,       kTileWidth,
    kTileHeight,  kTileOffsets,     kExtraSamples,  kSampleFormat, kXmp};

constexpr std::uint64_t kJpegCompression = 7;
constexpr std::uint64_t kMostSamples = 6;

// Returns the bytes of a whole number of TIFF's type; 0 for other types.
std::size_t whole_number_bytes(std::uint64_t type) {
  switch (type) {
    case 1:  // BYTE
    case 7:  // UNDEFINED
      return 1;
    case 3:  // SHORT
      return 2;
    case 4:  // LONG
      return 4;
    case 16:  // LONG8
      return 8;
    default:
      return 0;
  }
}

// The first directory of a TIFF, whose entries may lie anywhere in the file.
class Directory {
 public:
  explicit Directory(HeaderWindow& window) : window_(window) {}

  Status open() {
    constexpr std::uint64_t kBig = 43;
    ISOCOST_ASSIGN(const ByteView head, window_.all(0, 8, "its TIFF header"));
    is_little_ = head[0] == 'I';
    is_big_ = number(head, 2, 2) == kBig;
    if (!is_big_) return read_entries(number(head, 4, 4), 2, 12);
    ISOCOST_ASSIGN(const ByteView more, window_.all(0, 16, "its TIFF header"));
    if (number(more, 4, 2) != 8) return corrupt("its TIFF header is damaged");
    return read_entries(number(more, 8, 8), 8, 20);
  }

  bool is_little() const { return is_little_; }
  bool is_big() const { return is_big_; }

  // Returns the number of a tag's values; 0 if it has none that are whole numbers.
  std::uint64_t count(Tag tag) const { return entry(tag).count; }

  // Returns a value of a tag, or `otherwise` if it has fewer.
  Result<std::uint64_t> value(Tag tag, std::uint64_t otherwise, std::uint64_t index = 0) const {
    const Entry& found = entry(tag);
    if (index >= found.count) return otherwise;
    const std::int64_t at =
        found.at + static_cast<std::int64_t>(index) * static_cast<std::int64_t>(found.bytes);
    ISOCOST_ASSIGN(const ByteView raw, window_.all(at, found.bytes, "its TIFF directory"));
    return number(raw, 0, found.bytes);
  }

  // Returns a tag's only value, which every sample has.
  Result<std::uint64_t> common_value(Tag tag, std::uint64_t otherwise) const {
    ISOCOST_ASSIGN(const std::uint64_t first, value(tag, otherwise));
    for (std::uint64_t i = 1; i < std::min(count(tag), kMostSamples); ++i) {
      ISOCOST_ASSIGN(const std::uint64_t next, value(tag, first, i));
      if (next != first) {
        return Error(ErrorCode::kUnsupported,
                     "its TIFF samples differ in size or kind, which is not read: convert it");
      }
    }
    return first;
  }

  // Returns the orientation that the directory states, or else its XMP packet.
  Result<std::uint8_t> orientation() const {
    OrientationTags tags;
    if (is_big_) {
      ISOCOST_ASSIGN(const std::uint64_t stated, value(kOrientation, 0));
      if (stated > 0) tags.exif = static_cast<std::int64_t>(std::min<std::uint64_t>(stated, 9));
    } else {
      ISOCOST_ASSIGN(tags.exif, exif_orientation(window_, 0, window_.size()));
    }
    const Entry& xmp = entry(kXmp);
    if (!tags.exif && xmp.bytes == 1) {
      const std::int64_t end =
          xmp.at + static_cast<std::int64_t>(std::min<std::uint64_t>(xmp.count, 1 << 20));
      ISOCOST_ASSIGN(tags.xmp, xmp_orientation(window_, xmp.at, end));
    }
    return tags.orientation();
  }

 private:
  struct Entry {
    std::int64_t at = 0;  ///< Offset of the values.
    std::uint64_t count = 0;
    std::size_t bytes = 0;  ///< Bytes of a value.
  };

  std::uint64_t number(ByteView from, std::size_t at, std::size_t n) const {
    return is_little_ ? little_endian(from, at, n) : big_endian(from, at, n);
  }

  const Entry& entry(Tag tag) const {
    return entries_.at(static_cast<std::size_t>(std::ranges::find(kTags, tag) - kTags.begin()));
  }

  Status read_entries(std::uint64_t directory, std::size_t count_bytes, std::size_t entry_bytes) {
    constexpr std::uint64_t kMostEntries = 65'535;
    if (directory >= static_cast<std::uint64_t>(window_.size())) {
      return corrupt("cut off: its TIFF directory lies beyond its end");
    }
    const auto begin = static_cast<std::int64_t>(directory);
    ISOCOST_ASSIGN(const ByteView head, window_.all(begin, count_bytes, "its TIFF directory"));
    const std::uint64_t entries = number(head, 0, count_bytes);
    if (entries > kMostEntries) return corrupt("its TIFF directory is damaged");
    auto at = begin + static_cast<std::int64_t>(count_bytes);
    for (std::uint64_t i = 0; i < entries; ++i, at += static_cast<std::int64_t>(entry_bytes)) {
      ISOCOST_ASSIGN(const ByteView raw, window_.all(at, entry_bytes, "its TIFF directory"));
      ISOCOST_TRY(read_entry(raw, at));
    }
    return {};
  }

  Status read_entry(ByteView raw, std::int64_t at) {
    const auto* const known = std::ranges::find(kTags, number(raw, 0, 2));
    if (known == kTags.end()) return {};
    Entry& kept = entries_.at(static_cast<std::size_t>(known - kTags.begin()));
    if (kept.count > 0) return corrupt("its TIFF directory has two entries of a kind");
    const std::size_t width = is_big_ ? 8 : 4;
    kept.bytes = whole_number_bytes(number(raw, 2, 2));
    kept.count = kept.bytes == 0 ? 0 : number(raw, 4, width);
    const std::uint64_t place = number(raw, 4 + width, width);
    if (kept.count == 0) return {};
    // Counts are compared without a product that may overflow.
    if (kept.count <= width / kept.bytes) {
      kept.at = at + static_cast<std::int64_t>(4 + width);
      return {};
    }
    const auto size = static_cast<std::uint64_t>(window_.size());
    if (place > size || kept.count > (size - place) / kept.bytes) {
      return corrupt("cut off: a list of its TIFF directory lies beyond its end");
    }
    kept.at = static_cast<std::int64_t>(place);
    return {};
  }

  HeaderWindow& window_;
  bool is_little_ = true;
  bool is_big_ = false;
  std::array<Entry, kTags.size()> entries_{};
};

Error unread_tiff(const std::string& what) {
  return {ErrorCode::kUnsupported, "its TIFF has " + what + ", which is not read: convert it"};
}

Result<std::int32_t> side(const Directory& directory, Tag tag, std::uint64_t otherwise) {
  ISOCOST_ASSIGN(const std::uint64_t value, directory.value(tag, otherwise));
  if (value == 0 || value > INT32_MAX) return corrupt("its TIFF header says an impossible size");
  return static_cast<std::int32_t>(value);
}

Status read_compression(const Directory& directory, TiffLayout& layout) {
  ISOCOST_ASSIGN(const std::uint64_t compression, directory.value(kCompression, 1));
  // None, CCITT's three, LZW, JPEG, Deflate by two numbers, PackBits.
  constexpr auto kRead = std::to_array<std::uint64_t>({1, 2, 3, 4, 5, 7, 8, 32946, 32773});
  if (std::ranges::find(kRead, compression) == kRead.end()) {
    return unread_tiff("a compression of the number " + std::to_string(compression));
  }
  layout.is_jpeg = compression == kJpegCompression;
  return {};
}

// Returns the colours of a photometric interpretation, and how many samples they take.
struct Photometric {
  TiffColours colours = TiffColours::kGrey;
  std::int32_t samples = 1;
};
std::optional<Photometric> photometric(std::uint64_t number) {
  switch (number) {
    case 0:
      return Photometric{TiffColours::kInvertedGrey, 1};
    case 1:
      return Photometric{TiffColours::kGrey, 1};
    case 2:
      return Photometric{TiffColours::kRgb, 3};
    case 3:
      return Photometric{TiffColours::kPalette, 1};
    case 5:
      return Photometric{TiffColours::kCmyk, 4};
    case 6:
      return Photometric{TiffColours::kYcc, 3};
    default:
      return std::nullopt;
  }
}

// Reads the meaning of samples other than colours. If there are several, the first may be opacity.
Status read_alpha(const Directory& directory, std::int32_t colour_samples, TiffLayout& layout) {
  constexpr std::uint64_t kCorelDraw = 999;  // its number of what is an opacity
  if (layout.samples < colour_samples) return corrupt("its TIFF has too few samples");
  const std::int32_t more = layout.samples - colour_samples;
  if (more == 0) return {};
  const bool is_rgba = layout.colours == TiffColours::kRgb && more == 1;
  if (directory.count(kExtraSamples) == 0 && is_rgba) {
    layout.alpha = TiffAlpha::kStraight;
    return {};
  }
  if (directory.count(kExtraSamples) != static_cast<std::uint64_t>(more)) {
    return unread_tiff("samples of an unknown meaning");
  }
  ISOCOST_ASSIGN(const std::uint64_t first, directory.value(kExtraSamples, 0));
  if (first == 1) layout.alpha = TiffAlpha::kPremultiplied;
  if (first == 2 || first == kCorelDraw) layout.alpha = TiffAlpha::kStraight;
  if (first > 2 && first != kCorelDraw) return unread_tiff("samples of an unknown meaning");
  for (std::int32_t i = 1; i < more; ++i) {
    ISOCOST_ASSIGN(const std::uint64_t next,
                   directory.value(kExtraSamples, 0, static_cast<std::uint64_t>(i)));
    if (next != 0) return unread_tiff("several opacities");
  }
  return {};
}

// Returns whether pixels of this kind are read, as Pillow reads them.
bool is_read_kind(const TiffLayout& layout, bool is_little) {
  const bool is_wide = layout.bits == 16;
  const bool has_more = layout.samples > 1;
  const bool is_premultiplied = layout.alpha == TiffAlpha::kPremultiplied;
  switch (layout.colours) {
    case TiffColours::kGrey:
      return !has_more || (layout.samples == 2 && layout.bits == 8 && !is_premultiplied);
    case TiffColours::kInvertedGrey:
      return !has_more && (!is_wide || is_little);
    case TiffColours::kPalette:
      return !is_wide &&
             (!has_more || (layout.samples == 2 && layout.bits == 8 && !is_premultiplied));
    case TiffColours::kRgb:
      return layout.bits == 8 || (is_wide && layout.samples <= 4);
    case TiffColours::kCmyk:
      return layout.alpha == TiffAlpha::kNone &&
             (layout.bits == 8 || (is_wide && layout.samples == 4));
    default:
      return layout.is_jpeg && !layout.is_separate && layout.samples == 3 && layout.bits == 8;
  }
}

Status read_samples(const Directory& directory, TiffLayout& layout) {
  ISOCOST_ASSIGN(const std::uint64_t samples, directory.value(kSamplesPerPixel, 1));
  if (samples == 0 || samples > kMostSamples) {
    return unread_tiff(std::to_string(samples) + " samples a pixel");
  }
  layout.samples = static_cast<std::int32_t>(samples);
  ISOCOST_ASSIGN(const std::uint64_t bits, directory.common_value(kBitsPerSample, 1));
  if (bits != 1 && bits != 2 && bits != 4 && bits != 8 && bits != 16) {
    return unread_tiff(std::to_string(bits) + " bits a sample");
  }
  layout.bits = static_cast<std::int32_t>(bits);
  ISOCOST_ASSIGN(const std::uint64_t interpretation, directory.value(kPhotometric, 0));
  const auto known = photometric(interpretation);
  if (!known) return unread_tiff("colours of the number " + std::to_string(interpretation));
  layout.colours = known->colours;
  ISOCOST_TRY(read_alpha(directory, known->samples, layout));
  // Signed samples are read where Pillow takes them for unsigned ones.
  ISOCOST_ASSIGN(const std::uint64_t format, directory.common_value(kSampleFormat, 1));
  const bool is_signed_grey = format == 2 && layout.bits == 8 && layout.samples == 1 &&
                              layout.colours == TiffColours::kGrey;
  if (format != 1 && !is_signed_grey) return unread_tiff("samples that are no whole numbers");
  if (!is_read_kind(layout, directory.is_little())) {
    return unread_tiff(std::to_string(layout.samples) + " samples of " +
                       std::to_string(layout.bits) + " bits in colours of the number " +
                       std::to_string(interpretation));
  }
  return {};
}

Status read_blocks(const Directory& directory, TiffLayout& layout) {
  layout.is_tiled = directory.count(kTileWidth) > 0 && directory.count(kTileOffsets) > 0;
  if (layout.is_tiled) {
    ISOCOST_ASSIGN(layout.block_width, side(directory, kTileWidth, 0));
    ISOCOST_ASSIGN(layout.block_height, side(directory, kTileHeight, 0));
    return {};
  }
  layout.block_width = layout.width;
  ISOCOST_ASSIGN(const std::uint64_t rows, directory.value(kRowsPerStrip, INT32_MAX));
  if (rows == 0) return corrupt("its TIFF has strips without rows");
  layout.block_height =
      static_cast<std::int32_t>(std::min(rows, static_cast<std::uint64_t>(layout.height)));
  return {};
}

}  // namespace

std::int32_t TiffLayout::kept() const {
  const std::int32_t opacity = alpha == TiffAlpha::kNone ? 0 : 1;
  switch (colours) {
    case TiffColours::kRgb:
    case TiffColours::kYcc:
      return 3 + opacity;
    case TiffColours::kCmyk:
      return 4;
    default:
      return 1 + opacity;
  }
}

std::int64_t TiffLayout::block_row_bytes() const {
  const std::int64_t in_plane = is_separate ? 1 : samples;
  return (block_width * in_plane * bits + 7) / 8;
}

std::int64_t TiffLayout::decoder_bytes() const {
  const std::int64_t block = block_row_bytes() * block_height;
  // A progressive JPEG holds all its coefficients of 16 bits, with sides rounded up to blocks.
  constexpr std::int64_t kBlocks = 32;
  const std::int64_t held =
      is_jpeg ? (block_width + kBlocks) * (block_height + kBlocks) * std::int64_t{2} * samples : 0;
  // libtiff lists the place and the size of each block, in 64 bits and as they are stored.
  constexpr std::int64_t kListed = 32;
  const std::int64_t across = (std::int64_t{width} + block_width - 1) / block_width;
  const std::int64_t down = (std::int64_t{height} + block_height - 1) / block_height;
  const std::int64_t lists = across * down * (is_separate ? samples : 1) * kListed;
  const std::int64_t pixels = std::int64_t{width} * height;
  constexpr std::int64_t kRgba = 4;
  return kept() + kRgba + (block + held + lists) / pixels + 1;
}

Result<TiffLayout> read_tiff_layout(HeaderWindow& window) {
  Directory directory(window);
  ISOCOST_TRY(directory.open());
  TiffLayout layout;
  ISOCOST_ASSIGN(layout.width, side(directory, kWidth, 0));
  ISOCOST_ASSIGN(layout.height, side(directory, kHeight, 0));
  ISOCOST_TRY(read_compression(directory, layout));
  ISOCOST_ASSIGN(const std::uint64_t planes, directory.value(kPlanes, 1));
  if (planes != 1 && planes != 2) return corrupt("its TIFF has planes of an unknown kind");
  layout.is_separate = planes == 2;
  ISOCOST_TRY(read_samples(directory, layout));
  layout.is_separate = layout.is_separate && layout.samples > 1;
  ISOCOST_TRY(read_blocks(directory, layout));
  ISOCOST_ASSIGN(layout.orientation, directory.orientation());
  return layout;
}

}  // namespace isocost
