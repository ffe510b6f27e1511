// For any bytes, parsing returns an error or a layout that round-trips through JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "balancer/layout/layout.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto layout = isocost::Layout::parse(text);
  if (!layout) return 0;
  const auto again = isocost::Layout::parse(layout->to_json());
  if (!again || *again != *layout) std::abort();
  return 0;
}
