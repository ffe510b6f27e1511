#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/node/node_options.h"

namespace isocost {

/// One setting of a node: the flag --like-this, the TOML key like_this, and its row in
/// docs/config.md all come from it.
struct OptionSpec {
  std::string name;   ///< snake_case; recipe settings are "recipe.<field>", a table in TOML.
  std::string value;  ///< What is expected: "N", "SIZE", "FILE", "on|off", ...
  std::string text;   ///< One sentence.
  std::function<Status(NodeOptions&, std::string_view)> set;
  std::function<std::string(const NodeOptions&)> get;

  std::string flag() const;  ///< "--max-video-frames" for "recipe.max_video_frames".
};

/// Every setting, in the order in which help and docs show them.
const std::vector<OptionSpec>& node_option_table();

/// The setting of that name; null where there is none.
const OptionSpec* find_node_option(std::string_view name);

/// docs/config.md's table in Markdown.
std::string option_table_markdown();

/// "512MiB", "2GB", "1000000" -> bytes; k, M, G, T are powers of 1000, Ki, Mi, Gi, Ti of 1024.
Result<std::int64_t> parse_bytes(std::string_view text);

}  // namespace isocost
