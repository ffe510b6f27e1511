#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Writes named tensors; readers see all of the file or nothing. Errors: kIo.
Status write_tensors(const std::filesystem::path& file,
                     const std::vector<std::pair<std::string, torch::Tensor>>& tensors);

/// Errors: kNotFound; kCorrupt for a file that is none of write_tensors.
Result<std::map<std::string, torch::Tensor>> read_tensors(const std::filesystem::path& file);

}  // namespace isocost
