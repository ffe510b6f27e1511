#include "cli/common/python_command.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace isocost::cli {
namespace {

namespace fs = std::filesystem;

// The program of a command: its name, module, packages and folder are arguments. If Python finds
// no package isocost, it takes the one beside the program: that of a build tree, or of the prefix
// that both were installed in. A folder called isocost is no package.
constexpr const char* kProgram =
    "import importlib, importlib.util, os, sys\n"
    "name, module, packages, folder, *arguments = sys.argv[1:]\n"
    "found = importlib.util.find_spec('isocost')\n"
    "if found is None or found.origin is None:\n"
    "    library = os.path.join(os.path.dirname(folder), 'lib')\n"
    "    version = f'python{sys.version_info.major}.{sys.version_info.minor}'\n"
    "    for place in (os.path.join(folder, 'python'),\n"
    "                  os.path.join(library, 'python3', 'dist-packages'),\n"
    "                  os.path.join(library, version, 'dist-packages')):\n"
    "        if os.path.isfile(os.path.join(place, 'isocost', '__init__.py')):\n"
    "            sys.path.append(place)\n"
    "            break\n"
    "try:\n"
    "    main = importlib.import_module(module).main\n"
    "except ImportError as error:\n"
    "    sys.exit(f'{name} runs the Python package isocost, which {sys.executable} cannot '\n"
    "             f'import ({error}): install it as its README says, '\n"
    "             f'and pip install {packages}')\n"
    "sys.exit(main(arguments, program=name))\n";

// Returns the folder of this program, or nothing if the system does not report it.
fs::path program_folder() {
  std::error_code failed;
  return fs::read_symlink("/proc/self/exe", failed).parent_path();
}

// Returns the Python that this program was installed with, or the first one on PATH.
std::string python(const fs::path& folder) {
  std::error_code failed;
  const fs::path beside = folder / "python3";
  return !folder.empty() && fs::exists(beside, failed) ? beside.string() : "python3";
}

}  // namespace

Error run_python(const PythonCommand& command, const std::vector<std::string>& arguments) {
  const fs::path folder = program_folder();
  const std::string program = python(folder);
  std::vector<std::string> words = {
      program, "-c", kProgram, command.name, command.module, command.packages, folder.string()};
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
