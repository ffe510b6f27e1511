// The program `isocost`: subcommands over loader/ and transport/.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "loader/cli/commands.h"

int main(int argc, char** argv) {
  CLI::App app{
      "Isocost, a data loader that hands every rank microbatches of equal cost.\n"
      "'isocost COMMAND --help' explains a command and shows examples.",
      "isocost"};
  app.require_subcommand(1);
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
    const int status = app.exit(error);
    return status == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "isocost: %s\n", error.what());
    return 1;
  }
}
