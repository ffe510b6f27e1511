#include "cli/common/setting_flags.h"

#include <algorithm>
#include <cstddef>

#include "base/read_file.h"
#include "loader/config/option_table.h"

namespace isocost::cli {

NodeOptions isolated_defaults() {
  NodeOptions options;
  options.decode.isolate = true;
  return options;
}

Status add_config(GivenSettings& settings, const std::string& file) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  if (file.empty()) return {};
  ISOCOST_ASSIGN(const std::string text, read_file("config", file, kMaxBytes));
  return settings.add_toml(text, file);
}

void add_setting_flags(CLI::App& command, GivenSettings& given, const NodeOptions& defaults,
                       const std::vector<std::string_view>& names) {
  for (const OptionSpec& spec : node_option_table()) {
    if (!names.empty() && std::find(names.begin(), names.end(), spec.name) == names.end()) continue;
    const std::string standard = spec.get(defaults);
    CLI::Option* option = command.add_option_function<std::string>(
        spec.flag(),
        [&given, &spec](const std::string& value) { given.add(spec, value, spec.flag()); },
        spec.text + (standard.empty() ? "" : " [" + standard + "]"));
    option->type_name(spec.value);
    if (spec.value == "off|on")
      option->expected(0, 1)->default_str("on");  // for --insecure without a value
  }
}

}  // namespace isocost::cli
