#include "cli/common/program.h"

#include <algorithm>
#include <cstdio>
#include <exception>

#include "cli/common/components.h"
#include "cli/common/console.h"
#include "cli/common/exit_status.h"
#include "cli/common/signal_stop.h"

namespace isocost::cli {
namespace {

// Returns what is wrong with a word that should be a command of `parent`.
std::string unknown_command(const Program& program, const std::string& parent,
                            const std::string& word) {
  const auto found = std::find_if(program.elsewhere.begin(), program.elsewhere.end(),
                                  [&word](const auto& command) { return command.first == word; });
  if (found != program.elsewhere.end()) {
    return "'" + word + "' is a command of another program: " + found->second;
  }
  return "there is no command '" + word + "'; " + parent + " --help lists them";
}

// Returns what is wrong with an argument that `command`, called as `call`, does not take.
std::string unknown_argument(const Program& program, const CLI::App& command,
                             const std::string& call, const std::string& word) {
  if (!word.starts_with('-')) {
    return "'" + word + "' is an argument too many; " + call + " --help explains the call";
  }
  const auto other =
      std::find_if(program.other_flags.begin(), program.other_flags.end(), [&](const auto& flags) {
        return flags.first == word && command.get_option_no_throw(flags.second) != nullptr;
      });
  if (other == program.other_flags.end()) {
    return "there is no flag '" + word + "'; " + call + " --help lists them";
  }
  return "there is no flag '" + word + "'; " + call + " calls it " + other->second;
}

bool is(const CLI::ParseError& error, CLI::ExitCodes code) {
  return error.get_exit_code() == static_cast<int>(code);
}

// Returns the words that CLI11 did not expect. It keeps none of them if a command takes fewer
// arguments: its message then ends with the first one.
std::vector<std::string> unknown_words(const CLI::App& app, const CLI::ParseError& error) {
  std::vector<std::string> words = app.remaining(/*recurse=*/true);
  const std::string message = error.what();
  if (words.empty() && is(error, CLI::ExitCodes::ExtrasError)) {
    words.push_back(message.substr(message.rfind(' ') + 1));
  }
  return words;
}

std::string message_of(const Program& program, const CLI::App& app, const CLI::ParseError& error) {
  std::string call = program.name;
  const CLI::App* innermost = &app;
  for (auto chosen = app.get_subcommands(); !chosen.empty();
       chosen = innermost->get_subcommands()) {
    innermost = chosen.front();
    call += " " + innermost->get_name();
  }
  const bool has_commands = innermost->get_require_subcommand_min() > 0;
  const std::vector<std::string> unknown = unknown_words(app, error);
  // CLI11 reports missing arguments before unknown ones.
  const bool missing = is(error, CLI::ExitCodes::RequiredError);
  if (unknown.empty() || !(missing || is(error, CLI::ExitCodes::ExtrasError))) {
    if (missing && has_commands) return "a command is missing; " + call + " --help lists them";
    return std::string(error.what()) + "; " + call + " --help explains the call";
  }
  const auto flag = std::find_if(unknown.begin(), unknown.end(),
                                 [](const auto& word) { return word.starts_with('-'); });
  if (has_commands && flag != unknown.begin()) {
    return unknown_command(program, call, unknown.front());
  }
  return unknown_argument(program, *innermost, call,
                          flag == unknown.end() ? unknown.front() : *flag);
}

int print_error(const Program& program, const std::string& message, int status) {
  finish_progress();
  std::fprintf(stderr, "%s: %s\n", program.name.c_str(), message.c_str());
  return status;
}

// A stop that was asked for is no fault of a file, whose name a read that it ended would print.
std::string message_of(const Error& error) {
  const bool was_asked_for = error.code() == ErrorCode::kCancelled && first_stop_signal() > 0;
  return was_asked_for && !error.message().starts_with("stopped") ? "stopped" : error.message();
}

int run_and_flush(const Program& program, const Run& run) {
  const Result<int> result = run();
  const int status =
      result ? *result
             : print_error(program, message_of(result.error()), exit_status(result.error()));
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  return print_error(program, "cannot write to standard output",
                     status == kDone ? kFailed : status);
}

}  // namespace

int run_program(const Program& program, int argc, char** argv) {
  try {
    CLI::App app{program.description + "\n'" + program.name +
                     " COMMAND --help' explains a command and shows examples.",
                 program.name};
    app.require_subcommand(1);
    CLI::Option* with_components =
        app.add_flag("--components")
            ->description("With --version: the libraries that the program runs with, too");
    app.set_version_flag("--version", [&] {
      const std::string version = program.name + " " ISOCOST_VERSION;
      return with_components->count() == 0 ? version : version + "\n" + components();
    });
    with_components->needs(app.get_version_ptr());
    app.footer(kExitStatusHelp);
    Run run;
    for (const AddCommand add : program.commands) add(app, run);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
      return print_error(program, message_of(program, app, error), kUsageError);
    }
    return run_and_flush(program, run);
  } catch (const std::exception& error) {
    return print_error(program, error.what(), kFailed);
  }
}

}  // namespace isocost::cli
