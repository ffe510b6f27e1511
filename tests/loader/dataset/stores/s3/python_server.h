#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

namespace isocost {

/// A server of the tests' own, a script of Python beside them that prints its port and runs until
/// its input ends.
class PythonServer {
 public:
  explicit PythonServer(const std::string& script) {
    std::array<int, 2> input{};
    std::array<int, 2> output{};
    if (pipe2(input.data(), O_CLOEXEC) != 0 || pipe2(output.data(), O_CLOEXEC) != 0) std::abort();
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, output[1], STDOUT_FILENO);
    std::string python = "python3";
    std::string flag = "-B";
    std::string path = ISOCOST_SOURCE_DIR "/tests/loader/dataset/stores/s3/" + script;
    std::array<char*, 4> arguments{python.data(), flag.data(), path.data(), nullptr};
    if (posix_spawnp(&process_, "python3", &files, nullptr, arguments.data(), environ) != 0) {
      std::abort();
    }
    posix_spawn_file_actions_destroy(&files);
    close(input[0]);
    close(output[1]);
    input_ = input[1];
    char digit = 0;
    while (read(output[0], &digit, 1) == 1 && digit != '\n') port_ += digit;
    close(output[0]);
  }
  PythonServer(const PythonServer&) = delete;
  PythonServer& operator=(const PythonServer&) = delete;
  ~PythonServer() {
    close(input_);
    waitpid(process_, nullptr, 0);
  }

  std::string address() const { return "http://127.0.0.1:" + port_; }

 private:
  pid_t process_ = 0;
  int input_ = -1;
  std::string port_;
};

}  // namespace isocost
