#include "cli/common/python_command.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace isocost::cli {
namespace {

namespace fs = std::filesystem;

// The program of a command: its name, module and packages are arguments.
constexpr const char* kProgram =
    "import importlib, sys\n"
    "name, module, packages, *arguments = sys.argv[1:]\n"
    "try:\n"
    "    main = importlib.import_module(module).main\n"
    "except ImportError as error:\n"
    "    sys.exit(f'{name} runs the Python package isocost, which {sys.executable} cannot '\n"
    "             f'import ({error}): install it as its README says, '\n"
    "             f'and pip install {packages}')\n"
    "sys.exit(main(arguments, program=name))\n";

// Returns the Python that this program was installed with, or the first one on PATH.
std::string python() {
  std::error_code failed;
  const fs::path beside = fs::read_symlink("/proc/self/exe", failed).parent_path() / "python3";
  return !failed && fs::exists(beside, failed) ? beside.string() : "python3";
}

}  // namespace

Error run_python(const PythonCommand& command, const std::vector<std::string>& arguments) {
  const std::string program = python();
  std::vector<std::string> words = {program,      "-c",           kProgram,
                                    command.name, command.module, command.packages};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(program.c_str(), pointers.data());
  return {ErrorCode::kNotFound, command.name + " runs " + program + ": " +
                                    std::generic_category().message(errno) +
                                    "; install Python 3 and the package isocost"};
}

}  // namespace isocost::cli
