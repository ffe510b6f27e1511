// Any bytes as the table of a data set, as they are and with a right size and checksum: an error,
// or a table whose samples are all those of a shard.

#include "loader/dataset/internal/shard_table.h"

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

void read(const std::vector<std::byte>& bytes) {
  const auto table = isocost::decode_table(bytes, {});
  if (!table) return;
  for (std::size_t s = 0; s < table->shards.size(); ++s) {
    const isocost::ShardSelection& selection = table->shards.selections[s];
    if (selection.size() != table->shards.rows[s].usable) std::abort();
    const std::uint64_t size = selection.size();
    for (std::uint64_t i = 0; i < size && i < 1000; ++i) {
      if (selection.sample(i) >= selection.samples()) std::abort();
      if (selection.sample(size - 1 - i) >= selection.samples()) std::abort();
    }
    for (std::size_t i = 0; i < selection.cuts(); ++i) {
      if (selection.cut_of(selection.cut_sample(i)) != &selection.cut(i)) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin, begin + size);
  read(bytes);
  constexpr std::size_t kCovered = 16;
  if (size < kCovered + sizeof(std::uint64_t)) return 0;
  const std::uint64_t whole = size;
  std::memcpy(bytes.data() + kCovered, &whole, sizeof(whole));
  const auto crc = static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()) + kCovered, bytes.size() - kCovered));
  std::memcpy(bytes.data() + 12, &crc, sizeof(crc));
  read(bytes);
  return 0;
}
