// Whatever the bytes: settings that print and read back as themselves, or an error that names the
// file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "loader/config/given_settings.h"
#include "loader/config/option_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  isocost::GivenSettings settings;
  isocost::NodeOptions options;
  auto applied = settings.add_toml(text, "job.toml");
  if (applied) applied = isocost::apply(settings, options);
  if (!applied) {
    if (!applied.error().message().starts_with("job.toml:")) std::abort();
    return 0;
  }
  for (const isocost::Setting& setting : settings.list()) {
    const isocost::OptionSpec& spec = *setting.option;
    const std::string value = spec.get(options);
    if (!spec.set(options, value) || spec.get(options) != value) std::abort();
  }
  static_cast<void>(options.validate());
  return 0;
}
