#include "tests/support/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <utility>

namespace isocost {
namespace {

constexpr const char* kPathOfRoot = "/usr/local/sbin:/usr/sbin:/sbin";

std::string path_variable() {
  const char* path = std::getenv("PATH");
  return std::string(path == nullptr ? "/usr/bin:/bin" : path) + ":" + kPathOfRoot;
}

std::string find_program(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  std::istringstream folders(path_variable());
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + program;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

// The child's steps between fork and exec, none of which takes a lock.
[[noreturn]] void become(const char* file, char* const* arguments, const char* output,
                         pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  const int fd = ::open(output, O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(fd, 1);
  ::dup2(fd, 2);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execv(file, arguments);
  ::_exit(127);
}

}  // namespace

Result<ChildProcess> ChildProcess::start(std::vector<std::string> command,
                                         const std::filesystem::path& output) {
  const std::string file = find_program(command.front());
  if (file.empty()) return Error(ErrorCode::kIo, command.front() + ": not installed");
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  const std::string to = output.string();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(file.c_str(), arguments.data(), to.c_str(), parent);
  if (pid < 0) return Error(ErrorCode::kIo, "cannot start " + file);
  return ChildProcess(pid);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

bool ChildProcess::runs() {
  if (pid_ < 0) return false;
  if (::waitpid(pid_, nullptr, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

int ChildProcess::wait() {
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

ChildProcess::~ChildProcess() {
  if (!runs()) return;
  ::kill(pid_, SIGTERM);
  for (int i = 0; i < 500 && runs(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (!runs()) return;
  ::kill(pid_, SIGKILL);
  wait();
}

bool is_installed(const std::string& program) { return !find_program(program).empty(); }

}  // namespace isocost
