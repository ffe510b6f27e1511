#include "cli/common/node_option_flags.h"

#include <algorithm>

namespace isocost::cli {

NodeOptions isolated_defaults() {
  NodeOptions options;
  options.decode.isolate = true;
  return options;
}

void NodeOptionFlags::add_to(CLI::App& command, const std::vector<std::string_view>& names) {
  for (const OptionSpec& spec : node_option_table()) {
    if (!names.empty() && std::find(names.begin(), names.end(), spec.name) == names.end()) continue;
    const std::string standard = spec.get(defaults_);
    CLI::Option* option = command.add_option_function<std::string>(
        spec.flag(), [this, &spec](const std::string& value) { given_.emplace_back(&spec, value); },
        spec.text + (standard.empty() ? "" : " [" + standard + "]"));
    option->type_name(spec.value);
    if (spec.value == "off|on")
      option->expected(0, 1)->default_str("on");  // for --insecure without a value
  }
}

Status NodeOptionFlags::apply(NodeOptions& options) const {
  for (const auto& [spec, value] : given_) {
    ISOCOST_TRY_CONTEXT(spec->set(options, value), spec->flag());
  }
  return {};
}

}  // namespace isocost::cli
