#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Returns the member unless it is missing or null.
const nlohmann::ordered_json* json_member(const nlohmann::ordered_json& object,
                                          std::string_view name);
nlohmann::ordered_json* json_member(nlohmann::ordered_json& object, std::string_view name);

/// Returns the name of a value's type, with its article: "a string", "nothing".
std::string_view json_kind(const nlohmann::ordered_json& value);

/// Returns whether a text holds calls of tools in JSON, as a turn of the role "function_call" does:
/// an object with "name" and "arguments", or a list of such.
bool holds_calls(const nlohmann::ordered_json& text);

/// Checks the "tool_calls" of a turn. Returns whether it has any. Errors: kCorrupt for a value that
/// is not a list, and for a call that names no function.
Result<bool> check_calls(const nlohmann::ordered_json& turn);
/// Returns whether a turn has one of the members that weigh its loss: "weight", "loss_weight",
/// "loss" or "train".
bool has_weight(const nlohmann::ordered_json& turn);
/// Checks these members. Errors: kCorrupt unless the first two are finite numbers of at least 0,
/// the others true or false, and all that there are say the same.
Status check_weights(const nlohmann::ordered_json& turn);
/// Checks a part of the type "thinking". Errors: kCorrupt unless "thinking", or else "text", is a
/// string or a list of text parts.
Status check_thoughts(const nlohmann::ordered_json& part);
/// Checks the "system" beside a list of turns. Errors: kCorrupt for a value that is not a string,
/// and where the first turn is another one of the system.
Status check_system(const nlohmann::ordered_json& object, const nlohmann::ordered_json& first_turn);
/// Checks the "tools" beside a list of turns. Errors: kCorrupt unless they are a list of objects,
/// or a string that holds one in JSON.
Status check_tools(const nlohmann::ordered_json& object);

}  // namespace isocost
