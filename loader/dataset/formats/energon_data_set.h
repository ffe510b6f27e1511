#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/formats/tar_choice.h"

namespace isocost {

/// The split that is read unless another is named.
inline constexpr std::string_view kUsualSplit = "train";

/// A shard of an Energon data set.
struct EnergonShard {
  std::string name;  ///< Its path below the directory; may hold '/'.
  std::shared_ptr<const TarChoice> choice;
};

/// A split of an Energon data set.
struct EnergonDataSet {
  std::vector<EnergonShard> shards;           ///< In the order of the split.
  std::size_t all_shards = 0;                 ///< Shards of all splits, and of none.
  std::vector<std::string> excludes_nothing;  ///< Entries of `exclude` without shard and sample.
  std::vector<std::string> without_effect;    ///< Settings of dataset.yaml.
};

/// Returns the words that a text with braces stands for.
using ExpandBraces = std::function<Result<std::vector<std::string>>(std::string_view)>;

/// Reads the folder .nv-meta of a directory: `.info.json` or `.info.yaml`, `split.yaml` or
/// `split.json`, and `dataset.yaml`. Errors: kUnsupported for data sets that need code of their
/// own, kInvalidArgument for a split that is not there, kNotFound, kCorrupt, kIo; they name the
/// file and say what to do.
Result<EnergonDataSet> open_energon_data_set(const std::filesystem::path& directory,
                                             std::string_view split, const ExpandBraces& expand);

}  // namespace isocost
