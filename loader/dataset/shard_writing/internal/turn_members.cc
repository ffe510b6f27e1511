// Members beside the texts of turns, as the tokenizer reads them (isocost/tokens/conversation.py).

#include "loader/dataset/shard_writing/internal/turn_members.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "loader/dataset/shard_writing/internal/json_records.h"
#include "loader/dataset/shard_writing/internal/json_value.h"
#include "loader/dataset/shard_writing/internal/turn_roles.h"

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

Status check_weight(const Json& turn) {
  const Json* weight = json_member(turn, "weight");
  if (weight == nullptr) return {};
  if (!weight->is_number()) {
    return corrupt_record("'weight' is " + std::string(json_kind(*weight)) + ", and no number");
  }
  const auto value = static_cast<float>(weight->get<double>());
  if (std::isfinite(value) && value >= 0) return {};
  return corrupt_record("'weight' is " + json_text(*weight) +
                        ": it must be a finite number of at least 0");
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
