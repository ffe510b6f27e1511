#include "loader/internal/tar_name.h"

#include <algorithm>
#include <cstddef>

namespace isocost {
namespace {

constexpr std::size_t kMaxName = 4096;
constexpr std::size_t kMaxShown = 256;

// Length of the UTF-8 character at the front, 0 where there is none (overlong forms, surrogates and
// values beyond U+10FFFF are none).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;
  if (lead == 0xED && byte(1) > 0x9F) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool has_parent_component(std::string_view name) {
  while (!name.empty()) {
    const std::size_t end = std::min(name.find('/'), name.size());
    if (name.substr(0, end) == "..") return true;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return false;
}

}  // namespace

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
  if (has_parent_component(name)) return "'..' in the path: store names without it";
  if (std::any_of(name.begin(), name.end(), is_control)) return "control character in the name";
  if (!is_utf8(name)) return "the name is not UTF-8";
  const MemberName split = split_member_name(name);
  if (split.key.empty() || split.key.ends_with('/')) {
    return "no key: the base name starts with a dot";
  }
  if (split.part.empty()) return "no extension, so no part name";
  return std::nullopt;
}

std::string_view strip_dot_slash(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  return name;
}

std::string printable(std::string_view name) {
  std::string out;
  while (!name.empty() && out.size() < kMaxShown) {
    const std::size_t length = utf8_length(name);
    const std::size_t step = std::max<std::size_t>(1, length);
    if (length == 0 || is_control(name.front())) {
      out += '?';
    } else {
      out += name.substr(0, step);
    }
    name.remove_prefix(step);
  }
  if (!name.empty()) out += "...";
  return out;
}

}  // namespace isocost
