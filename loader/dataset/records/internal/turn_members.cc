// Members of turns other than their texts, as the tokenizer reads them
// (isocost/tokens/conversation.py).

#include "loader/dataset/records/internal/turn_members.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "loader/dataset/records/internal/json_records.h"
#include "loader/dataset/records/internal/json_value.h"
#include "loader/dataset/records/internal/turn_roles.h"

namespace isocost {
namespace {

using Json = nlohmann::ordered_json;

// The tokenizer's limit is that of Python's stack, which is near.
constexpr std::size_t kMaxDepth = 500;

bool is_call(const Json& call) {
  if (!call.is_object() || !call.contains("arguments")) return false;
  const Json* name = json_member(call, "name");
  return name != nullptr && name->is_string();
}

// Returns whether an entry of "tool_calls" names a function, in OpenAI's form or without the object
// that it has around each call.
bool names_function(const Json& call) {
  if (!call.is_object()) return false;
  const Json* function = json_member(call, "function");
  if (function == nullptr) function = &call;
  if (!function->is_object()) return false;
  const Json* name = json_member(*function, "name");
  return name != nullptr && name->is_string();
}

// A member that weighs the loss of its turn, in the order of the tokenizer's table.
struct WeightKey {
  std::string_view name;
  bool is_switch = false;  // true or false, and no number
};

constexpr std::array kWeights = {WeightKey{"weight"}, WeightKey{"loss_weight"},
                                 WeightKey{"loss", true}, WeightKey{"train", true}};

std::string quoted(std::string_view name) { return "'" + std::string(name) + "'"; }

Result<float> number_weight(std::string_view key, const Json& given) {
  if (!given.is_number()) {
    return corrupt_record(quoted(key) + " is " + std::string(json_kind(given)) + ", and no number");
  }
  const auto value = static_cast<float>(given.get<double>());
  if (std::isfinite(value) && value >= 0) return value;
  return corrupt_record(quoted(key) + " is " + json_text(given) +
                        ": it must be a finite number of at least 0");
}

Result<float> switch_weight(std::string_view key, const Json& given) {
  if (given.is_boolean()) return given.get<bool>() ? 1.0F : 0.0F;
  // Another number may be a loss that somebody measured.
  if (given.is_number() && (given == 0 || given == 1)) return given == 1 ? 1.0F : 0.0F;
  return corrupt_record(quoted(key) + " is " + std::string(json_kind(given)) +
                        ", and neither true nor false");
}

// Returns whether a value is a list of {"text": "..."}, as Mistral's thinking parts hold.
bool is_list_of_texts(const Json& value) {
  return value.is_array() && std::ranges::all_of(value, [](const Json& each) {
           if (!each.is_object()) return false;
           const Json* text = json_member(each, "text");
           return text != nullptr && text->is_string();
         });
}

// Returns whether a value is one that Python counts as absent.
bool is_empty(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value == 0;
  return value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty();
}

}  // namespace

const Json* json_member(const Json& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Json* json_member(Json& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string_view json_kind(const Json& value) {
  if (value.is_null()) return "nothing";
  if (value.is_boolean()) return "a boolean";
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return value.is_string() ? "a string" : "a number";
}

bool holds_calls(const Json& text) {
  if (!text.is_string()) return false;
  const auto calls = parse_json_value(text.get_ref<const std::string&>(), kMaxDepth);
  if (!calls) return false;
  if (!calls->is_array()) return is_call(*calls);
  return !calls->empty() && std::ranges::all_of(*calls, is_call);
}

Result<bool> check_calls(const Json& turn) {
  const Json* calls = json_member(turn, "tool_calls");
  if (calls == nullptr || is_empty(*calls)) return false;
  if (!calls->is_array()) {
    return corrupt_record("'tool_calls' is " + std::string(json_kind(*calls)) + ", and no list");
  }
  for (std::size_t i = 0; i < calls->size(); ++i) {
    if (names_function((*calls)[i])) continue;
    return corrupt_record("call " + std::to_string(i + 1) + " of 'tool_calls' names no function");
  }
  return true;
}

bool has_weight(const Json& turn) {
  return std::ranges::any_of(
      kWeights, [&](const WeightKey& key) { return json_member(turn, key.name) != nullptr; });
}

Status check_weights(const Json& turn) {
  const WeightKey* first = nullptr;
  float weight = 1;
  for (const WeightKey& key : kWeights) {
    const Json* given = json_member(turn, key.name);
    if (given == nullptr) continue;
    ISOCOST_ASSIGN(const float found, key.is_switch ? switch_weight(key.name, *given)
                                                    : number_weight(key.name, *given));
    if (first != nullptr && found != weight) {
      return corrupt_record(quoted(first->name) + " is " +
                            json_text(*json_member(turn, first->name)) + " and " +
                            quoted(key.name) + " is " + json_text(*given) +
                            ", which are two weights: keep one of them");
    }
    if (first == nullptr) first = &key;
    weight = found;
  }
  return {};
}

Status check_thoughts(const Json& part) {
  const Json* text = json_member(part, "thinking");
  const std::string_view name = text == nullptr && json_member(part, "text") ? "text" : "thinking";
  if (text == nullptr) text = json_member(part, "text");
  if (text != nullptr && (text->is_string() || is_list_of_texts(*text))) return {};
  return corrupt_record("a thinking part whose " + quoted(name) + " is " +
                        std::string(text == nullptr ? "nothing" : json_kind(*text)) +
                        ", and neither a string nor a list of text parts");
}

Status check_system(const Json& object, const Json& first_turn) {
  const Json* system = json_member(object, "system");
  if (system == nullptr) return {};
  if (!system->is_string()) {
    return corrupt_record("'system' is " + std::string(json_kind(*system)) + ", and no string");
  }
  const Json* role = json_member(first_turn, "from");
  if (role == nullptr) role = json_member(first_turn, "role");
  if (role == nullptr || !role->is_string() || system->get_ref<const std::string&>().empty()) {
    return {};
  }
  const auto named = turn_role(role->get_ref<const std::string&>());
  if (!named || named->name != "system") return {};
  const Json* content = json_member(first_turn, "value");
  if (content == nullptr) content = json_member(first_turn, "content");
  if (content != nullptr && *content == *system) return {};
  return corrupt_record(
      "the sample has a 'system' beside its conversation, and turn 1 is another one of the system: "
      "keep one of them");
}

Status check_tools(const Json& object) {
  const Json* tools = json_member(object, "tools");
  if (tools == nullptr || *tools == "") return {};
  Json parsed;
  if (tools->is_string()) {
    auto read = parse_json_value(tools->get_ref<const std::string&>(), kMaxDepth);
    if (!read) {
      return corrupt_record("'tools' is a string that is no JSON: it " + read.error().message());
    }
    parsed = *std::move(read);
    tools = &parsed;
  }
  const bool is_list = tools->is_array() && std::ranges::all_of(*tools, [](const Json& tool) {
                         return tool.is_object();
                       });
  if (is_list) return {};
  return corrupt_record("'tools' is " + std::string(json_kind(*tools)) +
                        ", and no list of objects");
}

}  // namespace isocost
