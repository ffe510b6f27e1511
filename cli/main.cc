// The program `isocost`: subcommands over loader/ and transport/.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace {

// CLI11 asks for a command before it says that it does not know the word in its place.
int report(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining();
  const bool no_command = error.get_name() == "RequiredError" && app.get_subcommands().empty();
  if (!no_command || unknown.empty()) return app.exit(error) == 0 ? 0 : 2;
  const bool flag = unknown.front().starts_with('-');
  std::fprintf(stderr, "isocost: there is no %s '%s'; isocost --help lists them\n",
               flag ? "flag" : "command", unknown.front().c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Isocost, a data loader that hands every rank microbatches of equal cost.\n"
      "'isocost COMMAND --help' explains a command and shows examples.",
      "isocost"};
  app.require_subcommand(1);
  app.footer(
      "Status: 0 done; 1 failed, or something was found bad; 2 wrong call: flags, or the contents "
      "of a\nfile that they name; 128 + N stopped by signal N.");
  app.set_version_flag("--version", "isocost " ISOCOST_VERSION);
  isocost::cli::Run run;
  isocost::cli::add_serve(app, run);
  isocost::cli::add_index(app, run);
  isocost::cli::add_check(app, run);
  isocost::cli::add_make_shards(app, run);
  isocost::cli::add_keygen(app, run);
  isocost::cli::add_balance(app, run);
  isocost::cli::add_emulate(app, run);
  isocost::cli::add_plan(app, run);
  isocost::cli::add_predict(app, run);
  isocost::cli::add_profile(app, run);
  isocost::cli::add_profile_data(app, run);
  isocost::cli::add_simulate(app, run);
  isocost::cli::add_top(app, run);
  try {
    app.parse(argc, argv);
    const int status = run();
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    std::fprintf(stderr, "isocost: cannot write to standard output\n");
    return status == 0 ? 1 : status;
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "isocost: %s\n", error.what());
    return 1;
  }
}
