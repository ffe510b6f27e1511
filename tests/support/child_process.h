#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace isocost {

/// A program that runs as long as this object lives, and no longer than the thread that started it.
/// Move-only; single-thread.
class ChildProcess {
 public:
  /// Starts a program, which is looked for in PATH. `output` receives what it prints. Errors: kIo.
  static Result<ChildProcess> start(std::vector<std::string> command,
                                    const std::filesystem::path& output);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Ends the program by SIGTERM, and after five seconds by SIGKILL.
  ~ChildProcess();

  /// Whether it has not ended yet.
  bool runs();
  /// Blocks until it ends. Returns its exit status; -1: a signal ended it.
  int wait();

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  pid_t pid_ = -1;
};

/// Whether a program is found in PATH, or in the folders of programs for root.
bool is_installed(const std::string& program);

}  // namespace isocost
