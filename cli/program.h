#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace isocost::cli {

/// What the chosen command does. Returns its exit status, or the error that it failed with.
using Run = std::function<Result<int>()>;

/// Adds one command, or a group of them. The command sets `run` once it is chosen and parsed.
using AddCommand = void (*)(CLI::App& app, Run& run);

struct Program {
  std::string name;
  std::string description;
  std::vector<AddCommand> commands;
  /// Commands of another program, and how to call them there. Named where somebody tries them here.
  std::vector<std::pair<std::string, std::string>> elsewhere = {};
};

/// Runs a program's main function: parses the arguments, runs the chosen command, flushes standard
/// output, prints errors on standard error. Returns the exit status (see exit_status.h).
int run_program(const Program& program, int argc, char** argv);

}  // namespace isocost::cli
