// Whatever the bytes: rows with loads that are not negative and not all zero, or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cli/trace/trace_csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto loads =
      isocost::cli::parse_trace(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!loads) return 0;
  if (loads->empty()) std::abort();
  for (const isocost::Load& load : *loads) {
    std::int64_t units = 0;
    for (const isocost::ModuleLoad& module : load.modules) {
      if (module.units < 0 || module.units_squared < module.units) std::abort();
      units += module.units;
    }
    if (units == 0) std::abort();
  }
  return 0;
}
