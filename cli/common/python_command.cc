#include "cli/common/python_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include "base/file_descriptor.h"

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

// The words of a command line, as exec takes them.
class CommandLine {
 public:
  CommandLine(const PythonCommand& command, const std::vector<std::string>& arguments) {
    const fs::path folder = program_folder();
    words_ = {python(folder),   "-c",           kProgram, command.name, command.module,
              command.packages, folder.string()};
    words_.insert(words_.end(), arguments.begin(), arguments.end());
    pointers_.reserve(words_.size() + 1);
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }

  const std::string& program() const { return words_.front(); }
  // Returns only if that fails, with errno. Allocates nothing.
  void exec() { execvp(pointers_.front(), pointers_.data()); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

Error cannot_start(const std::string& name, const std::string& program, int reason) {
  return {ErrorCode::kNotFound, name + " runs " + program + ": " +
                                    std::generic_category().message(reason) +
                                    "; install Python 3 and the package isocost"};
}

// A child process. The destructor ends it.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() {
    if (id_ == 0) return;
    kill(id_, SIGTERM);
    for (int waited = 0; waited < kMostWaits && !has_ended(); ++waited) usleep(kWait);
    if (id_ == 0) return;
    kill(id_, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Returns the exit status. Blocks until the process has ended.
  int wait() {
    while (waitpid(id_, &status_, 0) < 0 && errno == EINTR) {
    }
    id_ = 0;
    return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }

 private:
  static constexpr int kMostWaits = 500;
  static constexpr useconds_t kWait = 10'000;

  bool has_ended() {
    if (waitpid(id_, &status_, WNOHANG) == 0) return false;
    id_ = 0;
    return true;
  }

  pid_t id_;
  int status_ = 0;
};

// Passes on the lines that are read from a pipe. Returns at its end, or once a stop is requested.
Status read_lines(int pipe, const std::function<void(std::string_view)>& on_line,
                  const std::stop_token& stop) {
  constexpr int kStopCheckMs = 50;
  std::string text;
  std::array<char, 4096> room{};
  while (!stop.stop_requested()) {
    pollfd readable{pipe, POLLIN, 0};
    if (poll(&readable, 1, kStopCheckMs) <= 0) continue;
    const ssize_t size = read(pipe, room.data(), room.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return Error(ErrorCode::kIo, std::generic_category().message(errno));
    if (size == 0) return {};
    text.append(room.data(), static_cast<std::size_t>(size));
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      on_line(std::string_view(text).substr(0, end));
      text.erase(0, end + 1);
    }
  }
  return Error(ErrorCode::kCancelled, "stopped");
}

// Becomes the command, in a process that was just forked: nothing is allocated, no lock taken.
// errno of a failed exec goes to `failure`.
[[noreturn]] void become(CommandLine& line, pid_t parent, int output, int failure) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  dup2(output, STDOUT_FILENO);
  line.exec();
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = write(failure, &reason, sizeof(reason));
  _exit(1);
}

struct Pipe {
  FileDescriptor out;
  FileDescriptor in;

  Status open() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      return Error(ErrorCode::kIo, "pipe: " + std::generic_category().message(errno));
    }
    out = FileDescriptor(ends[0]);
    in = FileDescriptor(ends[1]);
    return {};
  }
};

}  // namespace

Error run_python(const PythonCommand& command, const std::vector<std::string>& arguments) {
  CommandLine line(command, arguments);
  line.exec();
  return cannot_start(command.name, line.program(), errno);
}

Result<int> call_python(const PythonCommand& command, const std::vector<std::string>& arguments,
                        const std::function<void(std::string_view line)>& on_line,
                        const std::stop_token& stop) {
  CommandLine line(command, arguments);
  Pipe output;
  Pipe failure;
  ISOCOST_TRY(output.open());
  ISOCOST_TRY(failure.open());
  const pid_t parent = getpid();
  const pid_t id = fork();
  if (id == 0) become(line, parent, output.in.get(), failure.in.get());
  if (id < 0) return Error(ErrorCode::kIo, "fork: " + std::generic_category().message(errno));
  Child child(id);
  output.in = FileDescriptor();
  failure.in = FileDescriptor();
  int reason = 0;
  if (read(failure.out.get(), &reason, sizeof(reason)) == sizeof(reason)) {
    return cannot_start(command.name, line.program(), reason);
  }
  ISOCOST_TRY(read_lines(output.out.get(), on_line, stop));
  return child.wait();
}

}  // namespace isocost::cli
