#include "loader/dataset/names/data_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace isocost {

Result<std::string> join_data(std::span<const std::string> texts) {
  if (texts.size() == 1) return texts.front();
  if (texts.empty()) {
    return Error(ErrorCode::kInvalidArgument, "no data is named; give a directory or a file");
  }
  std::string joined;
  for (const std::string& text : texts) {
    if (text.empty()) {
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("text {} of {} that name data is empty; leave it out",
                               &text - texts.data() + 1, texts.size()));
    }
    if (text.find("::") != std::string::npos) {
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("{}: '::' stands between texts; name this one in a file with a path "
                               "on each line",
                               printable_path(text)));
    }
    joined += (joined.empty() ? "" : "::") + text;
  }
  return joined;
}

std::string printable_path(std::string_view path) {
  std::string printable(path);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7F'; };
  std::ranges::replace_if(printable, is_control, '?');
  return printable;
}

std::string shown_data(std::string_view data) {
  constexpr std::size_t kLongest = 300;
  if (data.size() <= kLongest) return std::string(data);
  const std::string_view first = data.substr(0, data.find("::"));
  std::size_t more = 0;
  for (std::size_t at = first.size(); at < data.size(); at = data.find("::", at + 2)) ++more;
  return fmt::format("{}{}", first.substr(0, kLongest),
                     more == 0 ? std::string("...") : fmt::format(" and {} more", more));
}

std::string for_shell(std::string_view data) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!data.empty() && data.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(data);
  }
  std::string quoted = "'";
  for (const char c : data) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace isocost
