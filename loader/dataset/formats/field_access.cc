#include "loader/dataset/formats/field_access.h"

#include <algorithm>
#include <cstddef>

namespace isocost {
namespace {

// Reads "part[key][key]". Returns whether the text has this form.
bool read_option(std::string_view text, FieldAccess& access) {
  const std::size_t bracket = std::min(text.find_first_of("[]"), text.size());
  if (bracket == 0) return false;
  access.part = text.substr(0, bracket);
  text.remove_prefix(bracket);
  while (!text.empty()) {
    const std::size_t end = text.find_first_of("[]", 1);
    if (text[0] != '[' || end == text.npos || text[end] != ']' || end == 1) return false;
    access.keys.emplace_back(text.substr(1, end - 1));
    text.remove_prefix(end + 1);
  }
  return true;
}

}  // namespace

Result<std::vector<FieldAccess>> parse_field_access(std::string_view text) {
  if (text.empty()) return Error(ErrorCode::kInvalidArgument, "it is empty; name a part");
  std::vector<FieldAccess> options;
  std::string_view rest = text;
  for (;;) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    FieldAccess access;
    if (!read_option(rest.substr(0, comma), access)) access = {std::string(text), {}};
    options.push_back(std::move(access));
    if (comma == rest.size()) return options;
    rest.remove_prefix(comma + 1);
  }
}

std::string field_access_text(const std::vector<FieldAccess>& options) {
  std::string text;
  for (const FieldAccess& option : options) {
    text += (text.empty() ? "" : ",") + option.part;
    for (const std::string& key : option.keys) text += "[" + key + "]";
  }
  return text;
}

}  // namespace isocost
