// GivenSettings::add_toml: the settings of a TOML file.
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <toml++/toml.h>

#include "loader/config/given_settings.h"
#include "loader/config/internal/toml_line.h"
#include "loader/config/option_table.h"
#include "loader/dataset/names/data_text.h"

namespace isocost {
namespace {

// Returns a TOML value as the text of a flag.
Result<std::string> value_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* real = node.as_floating_point())
    return (std::ostringstream() << real->get()).str();
  if (const auto* boolean = node.as_boolean()) return std::string(boolean->get() ? "on" : "off");
  return Error(ErrorCode::kInvalidArgument, "expected text, a number or true/false");
}

Result<std::string> data_text(const toml::array& array) {
  std::vector<std::string> texts;
  for (const toml::node& node : array) {
    const auto* text = node.as_string();
    if (text == nullptr) return Error(ErrorCode::kInvalidArgument, "expected texts in the array");
    texts.push_back(text->get());
  }
  return join_data(texts);
}

Result<std::string> step_text(const toml::array& array) {
  std::string joined;
  for (const toml::node& node : array) {
    const auto* text = node.as_string();
    if (text == nullptr) return Error(ErrorCode::kInvalidArgument, "expected texts in the array");
    joined.append(joined.empty() ? "" : ",").append(text->get());
  }
  return joined;
}

// Returns the value of a setting. Text in the place of a number is refused, even if it contains
// one: TOML values must have the right type.
Result<std::string> setting_text(const OptionSpec& option, std::string_view key,
                                 const toml::node& node) {
  if (const auto* array = node.as_array(); array != nullptr && option.name == "data") {
    return data_text(*array);
  }
  if (const auto* array = node.as_array(); array != nullptr && option.value == "STEPS") {
    return step_text(*array);
  }
  if (option.name == "data" && !node.is_string()) {
    return Error(ErrorCode::kInvalidArgument, "expected a text or an array of texts");
  }
  ISOCOST_ASSIGN(std::string text, value_text(node));
  if (!option.is_number() || !node.is_string()) return text;
  NodeOptions ignored;
  ISOCOST_TRY(option.set(ignored, text));  // says what is wrong with text that is not a number
  return Error(ErrorCode::kInvalidArgument, "'" + text + "' is text: write " + std::string(key) +
                                                " = " + text + ", without quotes");
}

Status add_table(GivenSettings& settings, const toml::table& table, const std::string& prefix,
                 std::string_view file_name) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const auto* inner = node.as_table(); inner != nullptr && prefix.empty()) {
      ISOCOST_TRY(add_table(settings, *inner, name + ".", file_name));
      continue;
    }
    std::string source = toml_line(node, file_name) + ": " + name;
    const OptionSpec* option = find_node_option(name);
    if (option == nullptr) {
      return Error(ErrorCode::kInvalidArgument,
                   source + ": no such setting; isocost serve --help lists them");
    }
    auto text = setting_text(*option, key.str(), node);
    if (!text) return std::move(text).error().with_context(source);
    settings.add(*option, *std::move(text), std::move(source));
  }
  return {};
}

}  // namespace

Status GivenSettings::add_toml(std::string_view toml, std::string_view file_name) {
  try {
    return add_table(*this, toml::parse(toml, std::string(file_name)), "", file_name);
  } catch (const toml::parse_error& error) {
    return Error(ErrorCode::kInvalidArgument, std::string(file_name) + ":" +
                                                  std::to_string(error.source().begin.line) + ": " +
                                                  std::string(error.description()));
  }
}

}  // namespace isocost
