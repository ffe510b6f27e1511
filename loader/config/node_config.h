#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "loader/node/node_options.h"

namespace isocost {

/// Reads settings from TOML text into `options`, leaving what it does not name. Errors:
/// kInvalidArgument with file, line and the unknown key, wrong type or bad value. Relative paths
/// are taken as they are.
Status apply_toml(NodeOptions& options, std::string_view toml, std::string_view file_name);

/// The defaults, with what `set` sets; it may be called twice. Where that includes a layout, ranks
/// and microbatches are the layout's unless they are set, too. Errors: those of `set` and
/// Layout::load.
Result<NodeOptions> make_options(const std::function<Status(NodeOptions&)>& set);

}  // namespace isocost
