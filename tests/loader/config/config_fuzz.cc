// Whatever the bytes: settings that print and read back as themselves, or an error that names the
// file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "loader/config/node_config.h"
#include "loader/config/option_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  isocost::NodeOptions options;
  if (const auto applied = isocost::apply_toml(options, text, "job.toml"); !applied) {
    if (!applied.error().message().starts_with("job.toml:")) std::abort();
    return 0;
  }
  for (const isocost::OptionSpec& spec : isocost::node_option_table()) {
    const std::string value = spec.get(options);
    if (!spec.set(options, value) || spec.get(options) != value) std::abort();
  }
  static_cast<void>(options.validate());
  return 0;
}
