#pragma once

#include <string>

#include "base/log.h"

namespace isocost {

/// Action of a machine: writes a line for whoever watches the training.
struct LogLine {
  LogLevel level = LogLevel::kInfo;
  std::string text;
};

}  // namespace isocost
