#pragma once

#include "base/result.h"
#include "examples/pipeline_trainer/options.h"

namespace isocost {

/// What a process left for the one that started it: files in its folder.
std::filesystem::path result_file(const Options& options, const std::string& role);
/// `part` is a part_name, or kReference.
std::filesystem::path gradient_file(const Options& options, const std::string& part,
                                    std::uint32_t step);
std::filesystem::path state_file(const Options& options, const std::string& part,
                                 std::uint32_t step);
inline constexpr const char* kCursorTensor = "cursor";  ///< Beside the weights in a state ...
inline constexpr const char* kCostModelStateTensor =
    "learned";  ///< ... as this is; see StartPoint.

/// The life of a stage's process, or of the one that computes the reference.
Status run_worker(const Options& options);

}  // namespace isocost
