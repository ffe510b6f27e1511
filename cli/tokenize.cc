#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands.h"

namespace isocost::cli {
namespace {

namespace fs = std::filesystem;

// Tokenizers are Python's: models come with them, and Isocost has none of its own.
constexpr const char* kProgram =
    "import sys\n"
    "try:\n"
    "    from isocost.tokenize import main\n"
    "except ImportError as error:\n"
    "    sys.exit(f'isocost tokenize runs the Python package isocost, which {sys.executable} "
    "cannot '\n"
    "             f'import ({error}): pip install isocost tokenizers jinja2')\n"
    "sys.exit(main(program='isocost tokenize'))\n";

// The Python that this program was installed with, or the first one on PATH.
std::string python() {
  std::error_code failed;
  const fs::path beside = fs::read_symlink("/proc/self/exe", failed).parent_path() / "python3";
  return !failed && fs::exists(beside, failed) ? beside.string() : "python3";
}

// Becomes that process: its exit status, signals and streams are those of the command.
Result<int> tokenize(const std::vector<std::string>& arguments) {
  const std::string program = python();
  std::vector<std::string> words = {program, "-c", kProgram};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(program.c_str(), pointers.data());
  return Error(ErrorCode::kNotFound, "isocost tokenize runs " + program + ": " +
                                         std::generic_category().message(errno) +
                                         "; install Python 3 and the package isocost");
}

}  // namespace

// Its arguments, --help too, are the Python command's.
void add_tokenize(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("tokenize", "Make tokens of the text of shards, for a model's directory.");
  command->prefix_command();
  command->set_help_flag();
  command->callback([command, &run] {
    run = [arguments = command->remaining()] { return tokenize(arguments); };
  });
}

}  // namespace isocost::cli
