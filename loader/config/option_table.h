#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/config/given_settings.h"
#include "loader/node/node_options.h"

namespace isocost {

/// One setting of a node. The flag --like-this, the TOML key like_this, the field of Python's
/// NodeOptions and the row of docs/config.md are all made from it.
struct OptionSpec {
  std::string name;   ///< snake_case; recipe settings are "recipe.<field>", a table in TOML.
  std::string value;  ///< Kind of value: "N", "SIZE", "FILE", "on|off", ...
  std::string text;   ///< One sentence.
  std::function<Status(NodeOptions&, std::string_view)> set;
  std::function<std::string(const NodeOptions&)> get;

  std::string flag()
      const;  ///< Returns a flag like "--max-video-frames" for "recipe.max_video_frames".
  /// Returns whether its values are numbers only, so that TOML has no text for it.
  bool is_number() const { return value == "N" || value == "X" || value == "SECONDS"; }
};

/// Returns every setting, in the order of help and docs.
const std::vector<OptionSpec>& node_option_table();

/// Returns the setting of that name, or null.
const OptionSpec* find_node_option(std::string_view name);

/// Sets the options that the settings name, and leaves the others. Reads no file. Errors:
/// kInvalidArgument for a value that cannot be, with the setting's source.
Status apply(const GivenSettings& settings, NodeOptions& options);

/// Returns the options of a node: `defaults`, then the numbers of the layout that the settings
/// name, then the settings. The files that the options name are read, and all is checked. Errors:
/// those of `apply`, NodeOptions::read_files and NodeOptions::validate.
Result<NodeOptions> make_options(const GivenSettings& settings, NodeOptions defaults = {});

/// Reads a size such as "512MiB", "2GB" or "1000000", in bytes; k, M, G, T are powers of 1000, Ki,
/// Mi, Gi, Ti powers of 1024. Errors: kInvalidArgument.
Result<std::int64_t> parse_bytes(std::string_view text);

}  // namespace isocost
