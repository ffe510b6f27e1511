#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/config/given_settings.h"
#include "loader/node/node_options.h"

namespace isocost::cli {

/// Returns the defaults of the programs' commands, which decode in worker processes.
NodeOptions isolated_defaults();

/// Adds the settings of a file of --config; none for an empty name. Errors: those of read_file and
/// GivenSettings::add_toml.
Status add_config(GivenSettings& settings, const std::string& file);

/// Adds the flags of the settings in `names`, or of all, to a command. Those that a user gives are
/// added to `given`, which outlives the command; --help shows `defaults`.
void add_setting_flags(CLI::App& command, GivenSettings& given, const NodeOptions& defaults,
                       const std::vector<std::string_view>& names = {});

}  // namespace isocost::cli
