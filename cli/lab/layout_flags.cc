#include "cli/lab/layout_flags.h"

namespace isocost::cli {

CLI::Option* add_layout_file(CLI::App& command, std::string& file) {
  return command
      .add_option("--layout", file, "Layout file of 'isocost plan'; replaces --dp to --schedule")
      ->type_name("FILE");
}

void replace_by(CLI::Option* layout_file, CLI::App& command,
                std::initializer_list<const char*> flags) {
  for (const char* flag : flags) layout_file->excludes(command.get_option(flag));
}

}  // namespace isocost::cli
