#include "loader/dataset/names/data_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "loader/dataset/stores/object_address.h"

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
                               printable_path(without_secrets(text))));
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

std::size_t between_entries(std::string_view text, std::size_t from) {
  bool in_brackets = false;  // those of an IPv6 address: "https://[::1]/"
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] == '[') in_brackets = true;
    if (text[i] == ']') in_brackets = false;
    if (!in_brackets && text.substr(i, 2) == "::") return i;
  }
  return std::string_view::npos;
}

std::string without_secrets(std::string_view text) {
  const std::string lower = lower_ascii(text);
  std::string shown;
  std::size_t done = 0;
  for (std::size_t at = lower.find("http"); at != std::string::npos; at = lower.find("http", at)) {
    const std::size_t scheme_end = lower.find("://", at);
    const bool is_address = scheme_end == at + 4 || (scheme_end == at + 5 && lower[at + 4] == 's');
    if (!is_address) {
      ++at;
      continue;
    }
    const std::size_t host = scheme_end + 3;
    const std::size_t end =
        std::min({between_entries(lower, host), lower.find(' ', host), lower.size()});
    const std::size_t host_end = std::min(lower.find_first_of("/?", host), end);
    const std::string_view named = std::string_view(lower).substr(host, host_end - host);
    // A password may hold a '/' or '?', though it must not.
    const bool is_cut = named.find('@') == std::string_view::npos && has_port_that_is_none(named);
    const std::size_t user_end =
        is_cut ? lower.substr(host, end - host).rfind('@') : named.rfind('@');
    shown += text.substr(done, host - done);
    done = user_end == std::string::npos ? host : host + user_end + 1;
    const std::size_t query = std::min(lower.find('?', std::max(host_end, done)), end);
    shown += text.substr(done, query - done);
    if (query < end) return shown + "?...";  // a query may hold anything, also what stands between
    done = end;
    at = end;
  }
  return shown + std::string(text.substr(done));
}

std::string shown_data(std::string_view given) {
  constexpr std::size_t kLongest = 300;
  const std::string shown = without_secrets(given);
  const std::string_view data = shown;
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
