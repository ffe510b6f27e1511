// Any bytes as a tar archive: listing must end, and every member that is called
// good must lie within the bytes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/byte_source.h"
#include "loader/internal/tar_listing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const isocost::MemoryByteSource source(std::as_bytes(std::span(data, size)));
  auto listing = isocost::TarListing::open(source);
  if (!listing) std::abort();
  std::int64_t end = 0;
  while (const auto member = listing->next()) {
    if (!member->problem.empty()) continue;
    if (member->offset < end || member->size < 0 || member->offset > source.size() ||
        member->size > source.size() - member->offset) {
      std::abort();
    }
    end = member->offset + member->size;
  }
  return 0;
}
