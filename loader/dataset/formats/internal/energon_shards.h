#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "loader/dataset/formats/internal/meta_value.h"

namespace isocost {

/// The samples of each shard, as Energon's `.info.json` or `.info.yaml` counts them.
using EnergonCounts = std::map<std::string, std::int64_t, std::less<>>;

/// The parts into which a data set is split, as Energon's `split.yaml` or `split.json` names them:
/// patterns with braces.
struct EnergonSplits {
  std::vector<std::pair<std::string, std::vector<std::string>>> parts;
  std::vector<std::string> exclude;

  /// Returns the patterns of a part. Errors: kInvalidArgument with the parts that there are.
  Result<std::vector<std::string>> part(std::string_view name) const;
};

/// Errors: kCorrupt for a document that is not of this form.
Result<EnergonCounts> energon_counts(const MetaValue& info);
Result<EnergonSplits> energon_splits(const MetaValue& split);

/// The shards of a part of a split, and the samples that it leaves out.
struct EnergonShards {
  std::vector<std::string> shards;   ///< In the order of the part.
  std::vector<std::int64_t> counts;  ///< Numbers of samples, for each shard.
  std::map<std::string, std::vector<std::string>> excluded_keys;  ///< Keys of samples by shard.
  /// Entries of `exclude` that name no shard of the data set and no sample of one.
  std::vector<std::string> excludes_nothing;
};

/// Composes a part whose patterns were expanded: what `exclude` names is left out, a shard or
/// "shard/key" for one sample. Errors: kInvalidArgument if nothing is left; kCorrupt for a shard
/// without a count, and for one that is named twice.
Result<EnergonShards> energon_shards(const EnergonCounts& counts,
                                     const std::vector<std::string>& part,
                                     const std::vector<std::string>& exclude);

}  // namespace isocost
