#pragma once

#include <CLI/CLI.hpp>

namespace isocost::cli {

/// Numbers from `least` to `most`. CLI::Range compares, and so lets NaN pass.
CLI::Validator number_range(double least, double most);

}  // namespace isocost::cli
