#include "decode/image/internal/bmp_layout.h"

#include <cstdint>
#include <cstdlib>

namespace isocost {

Result<BmpLayout> BmpLayout::read(ByteView head) {
  constexpr std::uint64_t kOs2Header = 12;
  constexpr std::uint64_t kInfoHeader = 40;
  if (head.size() < kFewestBytes) return corrupt("its BMP header is cut off");
  BmpLayout layout;
  layout.data_offset = little_endian(head, 10, 4);
  if (layout.data_offset < kFewestBytes) return corrupt("its BMP header is damaged");
  constexpr std::uint64_t kFileHeader = 14;
  const std::uint64_t header_bytes = little_endian(head, 14, 4);
  layout.header_bytes = kFileHeader + header_bytes;
  if (header_bytes == kOs2Header) {
    layout.width = static_cast<std::int64_t>(little_endian(head, 18, 2));
    layout.height = static_cast<std::int64_t>(little_endian(head, 20, 2));
    layout.bits = little_endian(head, 24, 2);
    return layout;
  }
  if (header_bytes < kInfoHeader) return corrupt("its BMP header is damaged");
  if (head.size() < kBytes) return corrupt("its BMP header is cut off");
  layout.width = static_cast<std::int32_t>(little_endian(head, 18, 4));
  layout.height = static_cast<std::int32_t>(little_endian(head, 22, 4));
  layout.bits = little_endian(head, 28, 2);
  layout.compression = little_endian(head, 30, 4);
  layout.data_bytes = little_endian(head, 34, 4);
  constexpr std::uint64_t kMasks = 12;  // behind a header that has no room for them
  if (header_bytes == kInfoHeader && layout.compression == 3) layout.header_bytes += kMasks;
  return layout;
}

bool BmpLayout::fits(std::uint64_t file_bytes) const {
  __extension__ using Wide = unsigned __int128;
  const Wide plain = static_cast<Wide>(stride()) * static_cast<std::uint64_t>(std::abs(height));
  return data_offset + (has_runs() ? Wide{data_bytes} : plain) <= file_bytes;
}

}  // namespace isocost
