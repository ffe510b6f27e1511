#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/internal/listed_source.h"
#include "loader/dataset/internal/selected_shards.h"
#include "loader/dataset/tokens/tokenizer_identity.h"

namespace isocost {

/// The tokens that the shards of a data set need.
struct WantedTokens {
  TokenizerIdentity tokenizer;
  std::string remedy;  ///< The command that makes them, for messages.
};

/// Fills in what is known of the i-th of the listed shards, from an earlier start. Returns false if
/// nothing is. Called on several threads at once. Null: nothing is known.
using TakeKnown = std::function<bool(std::size_t i, SelectedShards& shards)>;

/// Opens the indexes of the other shards one after the other, on several threads, or builds those
/// that are missing or stale, and selects their samples. Without `tokens`, the shards' own texts
/// are used. Errors: those of for_each_index and open_shard_tokens, with the source's name.
Result<SelectedShards> select_shards(const ListedSource& source, const DatasetOptions& options,
                                     const std::optional<WantedTokens>& tokens,
                                     const TakeKnown& take_known = {});

}  // namespace isocost
