#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "loader/dataset/index/index_format.h"
#include "loader/dataset/tokens/shape_check.h"
#include "loader/dataset/tokens/token_file.h"
#include "loader/dataset/tokens/turn_cut.h"

namespace isocost {

struct Truncation {
  std::optional<TurnCut> cut;
  std::string reason;  ///< Reason why there is no cut.
};

/// Cuts a sample that cannot be used whole at the last end of a turn at which it can be. Leaves out
/// cuts without a labelled token before them. `sample` is counted within the shard.
Truncation truncate_sample(const IndexView& index, const TokenFile& tokens, std::uint64_t sample,
                           const ShapeCheck& check_shape);

}  // namespace isocost
