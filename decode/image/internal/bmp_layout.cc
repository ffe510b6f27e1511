#include "decode/image/internal/bmp_layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace isocost {
namespace {

constexpr std::size_t kFileHeader = 14;
constexpr std::uint64_t kOs2Header = 12;
constexpr std::uint64_t kInfoHeader = 40;
constexpr std::uint64_t kWithMasks = 52;
constexpr std::uint64_t kWithAlphaMask = 56;
constexpr std::uint64_t kMasked = 3;       // BI_BITFIELDS
constexpr std::uint64_t kMaskedAlpha = 6;  // BI_ALPHABITFIELDS

Error damaged_header() { return corrupt("its BMP header is damaged"); }

// Returns the number of masks that stand after a header of 40 bytes, which has no room for them.
std::size_t masks_behind(std::uint64_t header_bytes, std::uint64_t compression) {
  if (header_bytes != kInfoHeader) return 0;
  return compression == kMaskedAlpha ? 4 : (compression == kMasked ? 3 : 0);
}

bool is_known_kind(std::uint64_t bits, std::uint64_t compression) {
  switch (compression) {
    case 0:
      return bits == 1 || bits == 4 || bits == 8 || bits == 16 || bits == 24 || bits == 32;
    case 1:
      return bits == 8;
    case 2:
      return bits == 4;
    case kMasked:
    case kMaskedAlpha:
      return bits == 16 || bits == 24 || bits == 32;
    default:
      return false;
  }
}

// Returns the masks of pixels whose header states none. The fourth byte of such a pixel means
// nothing.
std::array<std::uint32_t, 4> plain_masks(std::uint64_t bits) {
  if (bits == 16) return {0x7C00, 0x3E0, 0x1F, 0};
  return {0xFF0000, 0xFF00, 0xFF, 0};
}

// Returns whether a mask is of neighbouring bits, as all that writers state are.
bool is_of_neighbours(std::uint32_t mask) {
  const std::uint32_t from_first = mask >> (mask == 0 ? 0 : std::countr_zero(mask));
  return (from_first & (from_first + 1)) == 0;
}

Status read_masks(ByteView head, std::uint64_t header_bytes, BmpLayout& layout) {
  layout.masks = plain_masks(layout.bits);
  if (layout.compression != kMasked && layout.compression != kMaskedAlpha) return {};
  const std::size_t behind = masks_behind(header_bytes, layout.compression);
  const std::size_t within = header_bytes >= kWithAlphaMask ? 4 : 3;
  const std::size_t count = behind > 0 ? behind : within;
  constexpr std::size_t kMasksAt = kFileHeader + kInfoHeader;
  if (head.size() < kMasksAt + 4 * count) return corrupt("its BMP header is cut off");
  std::array<std::uint32_t, 4> stated{};
  for (std::size_t i = 0; i < count; ++i) {
    stated.at(i) = static_cast<std::uint32_t>(little_endian(head, kMasksAt + 4 * i, 4));
    if (!is_of_neighbours(stated.at(i))) {
      return Error(ErrorCode::kUnsupported,
                   "its BMP masks are of bits that are not neighbours, which is not read: "
                   "convert it");
    }
  }
  const bool are_absent = std::ranges::all_of(stated, [](std::uint32_t mask) { return mask == 0; });
  if (!are_absent) {
    layout.masks = stated;
  } else if (layout.bits == 32) {
    layout.masks[3] = 0xFF000000;  // as Pillow takes them
  }
  return {};
}

// Finds the palette and the pixels, which follow the header where it does not say where they are.
Status find_pixels(std::uint64_t header_bytes, std::uint64_t stated_colours, BmpLayout& layout) {
  layout.palette_offset =
      kFileHeader + header_bytes + 4 * masks_behind(header_bytes, layout.compression);
  if (layout.has_palette()) {
    constexpr std::uint64_t kMostColours = 65'536;
    const std::uint64_t colours =
        stated_colours == 0 ? std::uint64_t{1} << layout.bits : stated_colours;
    if (colours > kMostColours) return damaged_header();
    layout.palette_entries = colours;
  }
  const std::uint64_t behind_palette =
      layout.palette_offset + layout.palette_entries * layout.entry_bytes;
  // An offset that is the palette's own is one that its writer forgot to raise.
  const bool is_palettes = layout.data_offset == kFileHeader + header_bytes && layout.has_palette();
  if (layout.data_offset == 0 || is_palettes) layout.data_offset = behind_palette;
  return {};
}

}  // namespace

Result<BmpLayout> BmpLayout::read(ByteView head) {
  constexpr std::array<std::uint64_t, 7> kHeaders = {
      kOs2Header, kInfoHeader, kWithMasks, kWithAlphaMask, 64, 108, 124};
  if (head.size() < kFileHeader + kOs2Header) return corrupt("its BMP header is cut off");
  BmpLayout layout;
  layout.data_offset = little_endian(head, 10, 4);
  const std::uint64_t header_bytes = little_endian(head, 14, 4);
  if (std::ranges::find(kHeaders, header_bytes) == kHeaders.end()) {
    return Error(ErrorCode::kUnsupported, "a BMP header of " + std::to_string(header_bytes) +
                                              " bytes is not read: convert it");
  }
  std::uint64_t colours = 0;
  if (header_bytes == kOs2Header) {
    layout.entry_bytes = 3;
    layout.width = static_cast<std::int64_t>(little_endian(head, 18, 2));
    layout.height = static_cast<std::int64_t>(little_endian(head, 20, 2));
    layout.bits = little_endian(head, 24, 2);
  } else {
    if (head.size() < kFileHeader + kInfoHeader) return corrupt("its BMP header is cut off");
    layout.width = static_cast<std::int32_t>(little_endian(head, 18, 4));
    layout.height = static_cast<std::int32_t>(little_endian(head, 22, 4));
    layout.bits = little_endian(head, 28, 2);
    layout.compression = little_endian(head, 30, 4);
    colours = little_endian(head, 46, 4);
  }
  if (!is_known_kind(layout.bits, layout.compression)) {
    return Error(ErrorCode::kUnsupported,
                 "BMP of " + std::to_string(layout.bits) + " bits a pixel and compression " +
                     std::to_string(layout.compression) + " is not decoded: convert it");
  }
  ISOCOST_TRY(read_masks(head, header_bytes, layout));
  ISOCOST_TRY(find_pixels(header_bytes, colours, layout));
  return layout;
}

}  // namespace isocost
