#include "loader/config/node_config.h"

#include <sstream>
#include <string>

#include <toml++/toml.h>

#include "loader/config/option_table.h"
#include "loader/plan/served_layout.h"

namespace isocost {
namespace {

std::string line_of(const toml::node& node, std::string_view file_name) {
  return std::string(file_name) + ":" + std::to_string(node.source().begin.line);
}

// Returns a TOML value as the text of a flag.
Result<std::string> value_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* real = node.as_floating_point())
    return (std::ostringstream() << real->get()).str();
  if (const auto* boolean = node.as_boolean()) return std::string(boolean->get() ? "on" : "off");
  return Error(ErrorCode::kInvalidArgument, "expected text, a number or true/false");
}

// Sets an option from a value of the file. Text in the place of a number is refused, even if it
// contains one: TOML values must have the right type.
Status set_option(NodeOptions& options, const OptionSpec& spec, const std::string& key,
                  const toml::node& node) {
  ISOCOST_ASSIGN(const std::string text, value_text(node));
  ISOCOST_TRY(spec.set(options, text));
  if (!spec.is_number() || !node.is_string()) return {};
  return Error(ErrorCode::kInvalidArgument,
               "'" + text + "' is text: write " + key + " = " + text + ", without quotes");
}

Status apply_table(NodeOptions& options, const toml::table& table, const std::string& prefix,
                   std::string_view file_name) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const auto* inner = node.as_table(); inner != nullptr && prefix.empty()) {
      ISOCOST_TRY(apply_table(options, *inner, name + ".", file_name));
      continue;
    }
    const std::string where = line_of(node, file_name) + ": " + name;
    const OptionSpec* spec = find_node_option(name);
    if (spec == nullptr) {
      return Error(ErrorCode::kInvalidArgument,
                   where + ": no such setting; isocost serve --help lists them");
    }
    ISOCOST_TRY_CONTEXT(set_option(options, *spec, std::string(key.str()), node), where);
  }
  return {};
}

}  // namespace

Status apply_toml(NodeOptions& options, std::string_view toml, std::string_view file_name) {
  try {
    return apply_table(options, toml::parse(toml, std::string(file_name)), "", file_name);
  } catch (const toml::parse_error& error) {
    return Error(ErrorCode::kInvalidArgument, std::string(file_name) + ":" +
                                                  std::to_string(error.source().begin.line) + ": " +
                                                  std::string(error.description()));
  }
}

Result<NodeOptions> make_options(const std::function<Status(NodeOptions&)>& set) {
  NodeOptions options;
  ISOCOST_TRY(set(options));
  if (options.plan.layout.empty()) return options;
  // The settings are applied again over the layout's values: settings that were not given are the
  // layout's, and one that contradicts the layout is refused when the node is made.
  NodeOptions on_layout;
  on_layout.plan.layout = options.plan.layout;
  ISOCOST_TRY(adopt_layout(on_layout.plan));
  ISOCOST_TRY(set(on_layout));
  return on_layout;
}

}  // namespace isocost
