// Whatever the bytes: loads without a negative number, or an error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "loader/report/data_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto loads = isocost::parse_profiled_loads({reinterpret_cast<const char*>(data), size});
  if (!loads) return 0;
  if (loads->empty()) std::abort();
  for (const isocost::Load& load : *loads) {
    for (const isocost::ModuleLoad& module : load.modules) {
      if (std::min({module.sequences, module.units, module.units_squared}) < 0) std::abort();
    }
    if (load.label_tokens < 0 || load.tensor_bytes < 0) std::abort();
  }
  return 0;
}
