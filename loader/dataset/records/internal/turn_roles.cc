#include "loader/dataset/records/internal/turn_roles.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"

namespace isocost {
namespace {

// The order is that of messages, and of Python's table.
constexpr auto kRoles = std::to_array<std::pair<std::string_view, TurnRole>>({
    {"system", {"system"}},
    {"developer", {"developer"}},
    {"user", {"user"}},
    {"assistant", {"assistant"}},
    {"tool", {"tool"}},
    {"human", {"user"}},
    {"gpt", {"assistant"}},
    {"chatgpt", {"assistant"}},
    {"bing", {"assistant"}},
    {"bard", {"assistant"}},
    {"model", {"assistant"}},
    {"ai", {"assistant"}},
    {"bot", {"assistant"}},
    {"chatbot", {"assistant"}},
    {"function_call", {.name = "assistant", .calls_functions = true}},
    {"tool_call", {.name = "assistant", .calls_functions = true}},
    {"observation", {"tool"}},
    {"tool_response", {"tool"}},
    {"function", {"tool"}},
    {"function_response", {"tool"}},
});

}  // namespace

std::optional<TurnRole> turn_role(std::string_view name) {
  std::string lower = lower_ascii(name);
  std::ranges::replace(lower, '-', '_');
  const auto* const found = std::ranges::find(kRoles, std::string_view(lower),
                                              &std::pair<std::string_view, TurnRole>::first);
  return found == kRoles.end() ? std::nullopt : std::optional(found->second);
}

std::string known_roles() {
  std::string names;
  for (const auto& [name, role] : kRoles) names.append(names.empty() ? "" : ", ").append(name);
  return names;
}

}  // namespace isocost
