#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>

namespace isocost::cli {

/// Adds --layout, a file that replaces the flags --dp to --schedule.
CLI::Option* add_layout_file(CLI::App& command, std::string& file);

/// Refuses each of these flags of the command if it is given with --layout.
void replace_by(CLI::Option* layout_file, CLI::App& command,
                std::initializer_list<const char*> flags);

}  // namespace isocost::cli
