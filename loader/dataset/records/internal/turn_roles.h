#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace isocost {

/// A turn's role, as chat templates call it.
struct TurnRole {
  std::string_view name;         ///< "system", "developer", "user", "assistant" or "tool".
  bool calls_functions = false;  ///< Whether the text of the turn may be calls of tools in JSON.
};

/// Returns the role that a turn names; capitals, and "-" in place of "_", do not matter. Returns
/// nothing for a name that is unknown. Python has the same table (isocost/tokens/conversation.py);
/// tests/conversations.json holds both to it.
std::optional<TurnRole> turn_role(std::string_view name);

/// Returns all names that turn_role knows, in lower case: "system, developer, ...".
std::string known_roles();

}  // namespace isocost
