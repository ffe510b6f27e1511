// Any bytes as the tokens of a shard, as they are and with a right checksum: an error, or a file
// whose samples are all within it.

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "decode/shape/tokens.h"
#include "loader/dataset/tokens/token_file.h"
#include "tests/support/memory_scratch.h"

namespace {

void read(const std::string& bytes) {
  static const auto scratch = isocost::memory_scratch("isocost-fuzz");
  const auto path = scratch / "shard.tokens";
  std::ofstream(path, std::ios::binary) << bytes;
  const auto file = isocost::TokenFile::map(path);
  if (!file) return;
  for (std::uint64_t i = 0; i < (*file)->identity().samples; ++i) {
    const auto entry = (*file)->entry(i);
    if ((*file)->shape(i).encoded_bytes != std::ssize(entry)) std::abort();
    if ((*file)->reason(i).size() > bytes.size()) std::abort();
    static_cast<void>(isocost::decode_tokens(entry));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  read(bytes);
  constexpr std::size_t kHeader = 104;
  constexpr std::size_t kCovered = 16;
  if (size < kHeader) return 0;
  const std::uint64_t whole = size;
  std::memcpy(bytes.data() + kCovered, &whole, sizeof(whole));
  // The entries, which no checksum covers, begin somewhere after the header.
  for (std::size_t end = kHeader; end <= size; end += 8) {
    const auto crc = static_cast<std::uint32_t>(
        crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()) + kCovered, end - kCovered));
    std::memcpy(bytes.data() + 12, &crc, sizeof(crc));
    read(bytes);
  }
  return 0;
}
