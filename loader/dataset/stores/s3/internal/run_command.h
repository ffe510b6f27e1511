#pragma once

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "loader/dataset/stores/s3/aws_environment.h"

namespace isocost {

struct CommandLimits {
  std::chrono::milliseconds deadline = std::chrono::minutes(1);
  std::size_t max_bytes = std::size_t{64} << 10;  ///< In its output.
};

/// Runs a program without a shell, in a process group of its own, and returns its output. A program
/// that takes longer, writes more, or is no longer wanted is killed with its group; no process is
/// left. Errors, as predicates: kNotFound (it cannot be started), kIo (it ends with another status
/// than 0, with the last line of its error stream), kDeadlineExceeded, kResourceExhausted,
/// kCancelled (`stop`).
Result<std::string> run_command(const std::vector<std::string>& words,
                                const AwsEnvironment& environment, const std::stop_token& stop,
                                const CommandLimits& limits = {});

}  // namespace isocost
