#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "loader/dataset/formats/tar_listing.h"

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kChecksum = 148;

void list(std::span<const std::byte> bytes) {
  const isocost::MemoryByteSource source(bytes);
  auto listing = isocost::TarListing::open(source);
  if (!listing) std::abort();
  while (const auto member = listing->next()) {
    if (!member->problem.empty()) continue;
    const bool inside = member->offset >= 0 && member->size >= 0 &&
                        member->offset <= source.size() &&
                        member->size <= source.size() - member->offset;
    if (!inside || member->name.empty()) std::abort();
  }
}

// A change to a header is refused for its checksum; with a new one it is looked at.
void mend_checksums(std::vector<std::byte>& bytes) {
  for (std::size_t at = 0; at + kBlock <= bytes.size(); at += kBlock) {
    const std::span<std::byte> block(bytes.data() + at, kBlock);
    const std::string_view text(reinterpret_cast<const char*>(block.data()), kBlock);
    if (text.substr(257, 5) != "ustar") continue;
    for (std::size_t i = 0; i < 8; ++i) block[kChecksum + i] = std::byte{' '};
    unsigned sum = 0;
    for (const std::byte value : block) sum += static_cast<unsigned>(value);
    std::array<char, 8> digits{};
    std::snprintf(digits.data(), digits.size(), "%06o", sum);
    for (std::size_t i = 0; i < 7; ++i) block[kChecksum + i] = static_cast<std::byte>(digits.at(i));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  list(bytes);
  std::vector<std::byte> mended(bytes.begin(), bytes.end());
  mend_checksums(mended);
  list(mended);
  return 0;
}
