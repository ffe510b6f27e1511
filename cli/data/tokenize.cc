#include "cli/common/python_command.h"
#include "cli/data/commands.h"

namespace isocost::cli {

// Adds the command, which Python implements: tokenizers come with models and are Python's, and
// Isocost has none of its own. The arguments, --help included, are passed to the Python command.
void add_tokenize(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("tokenize", "Make tokens of the text of shards, for a model's directory.");
  command->prefix_command();
  command->set_help_flag();
  command->callback([command, &run] {
    run = [arguments = command->remaining()] {
      return run_python({"isocost tokenize", "isocost.tokenize", "tokenizers jinja2"}, arguments);
    };
  });
}

}  // namespace isocost::cli
