#include "cli/common/python_command.h"
#include "cli/data/commands.h"

namespace isocost::cli {

// Tokenizers are Python's: models come with them, and Isocost has none of its own. The arguments,
// --help too, are the Python command's.
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
