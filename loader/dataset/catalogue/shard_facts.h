#pragma once

#include <cstdint>
#include <string>

#include "loader/dataset/catalogue/sample_id.h"
#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/tokens/tokenizer_identity.h"

namespace isocost {

/// Contents of a shard as its index says, for lists.
struct ShardFacts {
  std::string format = {};  ///< "tar", "records", "files" or "mds".
  std::int64_t bytes = 0;   ///< Size of the shard, and of its media in files of their own.
  SampleId first = 0;       ///< The first usable sample, if there is one.
  std::uint64_t usable = 0;
  std::uint64_t bad = 0;  ///< Samples that cannot be used.
};

/// The tokens that are kept of a shard.
struct ShardTokenFacts {
  bool are_there = false;    ///< Whether there are any, whatever their tokenizer.
  std::string problem = {};  ///< Why they cannot be used; empty: they can, or there are none.
  std::string options = {};  ///< The options of `isocost tokenize` that are not its defaults.
};

/// Returns the facts of a shard, without `first` and with all good samples as usable ones. Reads
/// as much as the shard has records, or files of media.
ShardFacts shard_facts(const Shard& shard);

/// Looks for the tokens of a shard. `tokenizer`: the one that must have made them; null: any.
ShardTokenFacts shard_token_facts(const Shard& shard, const TokenizerIdentity* tokenizer);

}  // namespace isocost
