// Any bytes as a first frame: decoding never crashes, and what it accepts encodes to a message that
// decodes to the same bytes again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "transport/wire/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message = isocost::decode(std::as_bytes(std::span(data, size)));
  if (!message) return 0;
  const auto once = isocost::encode(*message);
  const auto again = isocost::decode(once);
  if (!again || isocost::encode(*again) != once) std::abort();
  return 0;
}
