#include "cli/program.h"

#include <algorithm>
#include <cstdio>
#include <exception>

#include "cli/console.h"
#include "cli/exit_status.h"

namespace isocost::cli {
namespace {

// What is wrong with a word that should be a command of `parent`.
std::string unknown_word(const Program& program, const std::string& parent,
                         const std::string& word) {
  const auto found = std::find_if(program.elsewhere.begin(), program.elsewhere.end(),
                                  [&word](const auto& command) { return command.first == word; });
  if (found != program.elsewhere.end()) {
    return "'" + word + "' is a command of another program: " + found->second;
  }
  return std::string("there is no ") + (word.starts_with('-') ? "flag" : "command") + " '" + word +
         "'; " + parent + " --help lists them";
}

// CLI11 says that a command is missing before it says that it does not know the word in its place.
int report(const Program& program, const CLI::App& app, const CLI::ParseError& error) {
  std::string call = program.name;
  const CLI::App* innermost = &app;
  for (auto chosen = app.get_subcommands(); !chosen.empty();
       chosen = innermost->get_subcommands()) {
    innermost = chosen.front();
    call += " " + innermost->get_name();
  }
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  const bool no_command =
      error.get_name() == "RequiredError" && innermost->get_require_subcommand_min() > 0;
  if (!no_command || unknown.empty()) return app.exit(error) == 0 ? kDone : kUsageError;
  std::fprintf(stderr, "%s: %s\n", program.name.c_str(),
               unknown_word(program, call, unknown.front()).c_str());
  return kUsageError;
}

int report(const Program& program, const std::string& message, int status) {
  finish_progress();
  std::fprintf(stderr, "%s: %s\n", program.name.c_str(), message.c_str());
  return status;
}

int run_and_flush(const Program& program, const Run& run) {
  const Result<int> result = run();
  const int status =
      result ? *result : report(program, result.error().message(), exit_status(result.error()));
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  return report(program, "cannot write to standard output", status == kDone ? kFailed : status);
}

}  // namespace

int run_program(const Program& program, int argc, char** argv) {
  try {
    CLI::App app{program.description + "\n'" + program.name +
                     " COMMAND --help' explains a command and shows examples.",
                 program.name};
    app.require_subcommand(1);
    app.set_version_flag("--version", program.name + " " ISOCOST_VERSION);
    app.footer(
        "Exit status: 0 done; 1 failed, or something bad was found; 2 usage error: flags, or the\n"
        "contents of a file that they name; 128 + N stopped by signal N.");
    Run run;
    for (const AddCommand add : program.commands) add(app, run);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return report(program, app, error);
    }
    return run_and_flush(program, run);
  } catch (const std::exception& error) {
    return report(program, error.what(), kFailed);
  }
}

}  // namespace isocost::cli
