#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "loader/node/node_options.h"

namespace isocost {

/// Reads settings from TOML text into `options`; settings that the text does not name stay.
/// Relative paths are relative to the working directory. Errors: kInvalidArgument with file, line
/// and the unknown key, wrong type or bad value.
Status apply_toml(NodeOptions& options, std::string_view toml, std::string_view file_name);

/// Returns the default options as changed by `set`, which may be called twice. If it sets a layout,
/// ranks and microbatches default to those of the layout. Errors: those of `set` and Layout::load.
Result<NodeOptions> make_options(const std::function<Status(NodeOptions&)>& set);

}  // namespace isocost
