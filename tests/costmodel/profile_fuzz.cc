// For any bytes, parsing returns an error or a profile that round-trips through JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "costmodel/layer_profile.h"
#include "costmodel/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto layers = isocost::LayerProfile::parse(text);
  if (layers) {
    const auto again = isocost::LayerProfile::parse(layers->to_json());
    if (!again || again->to_json() != layers->to_json()) std::abort();
  }
  const auto profile = isocost::CostProfile::parse(text);
  if (!profile) return 0;
  const auto again = isocost::CostProfile::parse(profile->to_json());
  if (!again || again->to_json() != profile->to_json()) std::abort();
  return 0;
}
