#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Writes named tensors. Replaces the file in one piece, see replace_file. Errors: kIo.
Status write_tensors(const std::filesystem::path& file,
                     const std::vector<std::pair<std::string, torch::Tensor>>& tensors);

/// Returns the tensors of a file of write_tensors. Errors: kNotFound; kCorrupt for any other file.
Result<std::map<std::string, torch::Tensor>> read_tensors(const std::filesystem::path& file);

}  // namespace isocost
