// Whatever the bytes: a mixture of which each part is within its limits, or an error that names the
// file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "loader/config/internal/mixture_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto mixture = isocost::parse_mixture(text, "m.toml");
  if (!mixture) {
    if (!mixture.error().message().starts_with("m.toml:")) std::abort();
    return 0;
  }
  if (mixture->sources.empty()) std::abort();
  for (const isocost::SourceDescription& source : mixture->sources) {
    if (source.name.empty() || source.name.find('/') != std::string::npos) std::abort();
    if (source.paths.empty() || !source.schedule.validate("")) std::abort();
  }
  return 0;
}
