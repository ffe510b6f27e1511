#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/common/exit_status.h"

namespace isocost::cli {

/// Runs the chosen command. Returns its exit status, or the error that it failed with.
using Run = std::function<Result<int>()>;

/// Adds one command, or a group of them. The command sets `run` once it is chosen and parsed.
using AddCommand = void (*)(CLI::App& app, Run& run);

/// Texts of a command in --help.
struct CommandHelp {
  const char* name;
  const char* description;
  const char* footer;  ///< Examples and hints, with line ends. Exit statuses are added to them.
};

/// Adds a command to `app`, a program or a group of commands. Arguments::add_to adds its options;
/// `work` takes the parsed arguments and returns what Run returns.
template <typename Arguments, typename Work>
void add_command(CLI::App& app, Run& run, const CommandHelp& help, Work work) {
  CLI::App* command = app.add_subcommand(help.name, help.description);
  const auto arguments = std::make_shared<Arguments>();
  arguments->add_to(*command);
  command->footer(std::string(help.footer) + "\n" + kExitStatusHelp);
  command->callback(
      [arguments, work, &run] { run = [arguments, work] { return work(*arguments); }; });
}

struct Program {
  std::string name;
  std::string description;
  std::vector<AddCommand> commands;
  /// Commands of another program, and how to call them there; named if a user tries them here.
  std::vector<std::pair<std::string, std::string>> elsewhere = {};
  /// Flags that users may try here, and the names that these commands have for them.
  std::vector<std::pair<std::string, std::string>> other_flags = {};
};

/// Runs a program's main function: parses the arguments, runs the chosen command, flushes standard
/// output, prints errors on standard error. Returns the exit status (see exit_status.h).
int run_program(const Program& program, int argc, char** argv);

}  // namespace isocost::cli
