#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// The forms of a data text, for help.
inline constexpr std::string_view kDataHelp =
    "a directory of shards (*.tar, *.tar.gz, *.tgz, *.tar.zst, *.tzst), a shard, a pattern as in "
    "'shards/{000..099}.tar' or '**/*.tar', several of these with :: between them, a file with "
    "one on each line, or a mixture (*.toml)";

/// Joins several texts into one data text. Errors: kInvalidArgument for none, an empty one, and one
/// of several with "::" in it, which would be taken apart.
Result<std::string> join_data(std::span<const std::string> texts);

/// Returns a path or text for messages: with '?' for control characters, and other bytes as they
/// are, which need not be UTF-8.
std::string printable_path(std::string_view path);

/// Returns where the "::" stands that ends an entry of a data text which begins at `from`; npos:
/// nowhere. That of an address such as "[::1]" ends none.
std::size_t between_entries(std::string_view text, std::size_t from);

/// Returns a text with its addresses of HTTP, if there are any, without user and password, and with
/// "?..." for a query and all behind it: both may be secrets.
std::string without_secrets(std::string_view text);

/// Returns a data text for messages, without secrets: one of several hundred bytes or more as its
/// first entry, and how many more there are.
std::string shown_data(std::string_view data);

/// Returns a data text as a shell takes it: in quotes if the shell would change it.
std::string for_shell(std::string_view data);

}  // namespace isocost
