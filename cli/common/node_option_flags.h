#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "loader/config/option_table.h"
#include "loader/node/node_options.h"

namespace isocost::cli {

/// Returns the defaults of the programs' commands, which decode in worker processes.
NodeOptions isolated_defaults();

/// Flags made from the option table.
class NodeOptionFlags {
 public:
  explicit NodeOptionFlags(NodeOptions defaults) : defaults_(std::move(defaults)) {}

  /// Adds flags to a command: those named, or all of them.
  void add_to(CLI::App& command, const std::vector<std::string_view>& names = {});

  /// Sets the options that were given. Errors: kInvalidArgument with the flag.
  Status apply(NodeOptions& options) const;

 private:
  const NodeOptions defaults_;
  std::vector<std::pair<const OptionSpec*, std::string>> given_;
};

}  // namespace isocost::cli
