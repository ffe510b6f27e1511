#include "loader/dataset/formats/member_name.h"

#include <algorithm>
#include <cstddef>

#include "base/utf8.h"

namespace isocost {
namespace {

constexpr std::size_t kMaxName = 4096;

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

}  // namespace

bool is_metadata_member(std::string_view name) {
  constexpr std::string_view kMark = "__";
  const std::string_view first = name.substr(0, name.find('/'));
  if (!first.starts_with(kMark) || !first.ends_with(kMark)) return false;
  // A folder needs both marks; of a file's name they may be the same.
  return first.size() >= 2 * kMark.size() || first.size() == name.size();
}

bool has_parent_component(std::string_view name) {
  while (!name.empty()) {
    const std::size_t end = std::min(name.find('/'), name.size());
    if (name.substr(0, end) == "..") return true;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return false;
}

MemberName split_member_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == std::string_view::npos) return {name, {}};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::optional<std::string> refuse_member_name(std::string_view name) {
  if (name.empty()) return "the member has no name";
  if (name.size() > kMaxName) return "the member's name is longer than 4096 bytes";
  if (name.front() == '/') return "absolute path: store names relative to the shard's root";
  if (name.starts_with("./")) return "'./' before the path: store names without it";
  if (has_parent_component(name)) return "'..' in the path: store names without it";
  if (is_metadata_member(name)) {
    return "a first folder like '__this__', which readers of WebDataset skip: rename it";
  }
  if (std::any_of(name.begin(), name.end(), is_control)) return "control character in the name";
  if (!is_utf8(name)) return "the name is not UTF-8";
  const MemberName split = split_member_name(name);
  if (split.key.empty() || split.key.ends_with('/')) {
    return "no key: the base name starts with a dot";
  }
  if (split.part.empty()) return "no extension, so no part name";
  return std::nullopt;
}

std::optional<std::string> refuse_member(std::string_view key, std::string_view part) {
  const std::string name = std::string(key) + "." + std::string(part);
  if (auto reason = refuse_member_name(name)) return reason;
  const MemberName split = split_member_name(name);
  if (split.key == key && split.part == part) return std::nullopt;
  return "the key's base name has a dot, or the part's name a slash";
}

}  // namespace isocost
