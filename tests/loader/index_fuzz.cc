// Any bytes as an index file: `parse` refuses them, or everything can be read. The checksum is made
// right first, else it would stop nearly all of them at the door.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "loader/internal/index_format.h"
#include "loader/internal/index_layout.h"

namespace {

std::uint64_t sum_of(std::string_view text) {
  std::uint64_t sum = 0;
  for (const char c : text) sum += static_cast<unsigned char>(c);
  return sum;
}

std::uint64_t read_all(const isocost::IndexView& view) {
  std::uint64_t sum = static_cast<std::uint64_t>(view.identity().stamp.bytes);
  for (std::uint64_t i = 0; i < view.samples(); ++i) {
    sum += sum_of(view.key(i)) + (view.weight(i) > 1 ? 1 : 0);
    for (std::uint64_t p = view.first_part(i); p < view.first_part(i + 1); ++p) {
      sum += sum_of(view.part_name(p));
      const std::int64_t rest = view.tar_bytes() - view.part_offset(p);
      if (view.part_offset(p) < 0 || view.part_shape(p).encoded_bytes > rest) std::abort();
    }
  }
  for (std::uint64_t i = 0; i < view.bad(); ++i) {
    sum += sum_of(view.bad_key(i)) + sum_of(view.bad_part(i)) + sum_of(view.bad_reason(i));
  }
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  if (size >= sizeof(isocost::IndexHeader)) {
    const std::uint64_t file_bytes = size;
    std::memcpy(bytes.data() + offsetof(isocost::IndexHeader, file_bytes), &file_bytes,
                sizeof(file_bytes));
    const std::uint32_t crc = isocost::index_crc(bytes);
    std::memcpy(bytes.data() + offsetof(isocost::IndexHeader, crc), &crc, sizeof(crc));
  }
  const auto view = isocost::IndexView::parse(bytes);
  if (!view) return 0;
  volatile std::uint64_t sink = read_all(*view);
  (void)sink;
  return 0;
}
