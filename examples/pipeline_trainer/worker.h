#pragma once

#include "base/result.h"
#include "examples/pipeline_trainer/options.h"

namespace isocost {

/// Files that a process leaves for the process that started it. This one holds its results.
std::filesystem::path result_file(const Options& options, const std::string& role);
/// `part` is a part_name, or kReference.
std::filesystem::path gradient_file(const Options& options, const std::string& part,
                                    std::uint32_t step);
std::filesystem::path state_file(const Options& options, const std::string& part,
                                 std::uint32_t step);
/// Entries of a state other than the weights, see StartPoint.
inline constexpr const char* kLoaderTensor = "loader";

/// Runs a stage's process, or the one that computes the reference, until training ends.
Status run_worker(const Options& options);

}  // namespace isocost
