#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "loader/dataset/bad_samples.h"

namespace isocost::cli {

/// Prints a line per bad sample on standard output.
void print_bad_samples(const std::vector<BadSample>& bad);

/// Returns an array with an object per bad sample.
nlohmann::ordered_json bad_samples_json(const std::vector<BadSample>& bad);

}  // namespace isocost::cli
