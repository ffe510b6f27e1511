#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/internal/listed_source.h"
#include "loader/dataset/internal/selected_shards.h"
#include "loader/dataset/internal/shard_table.h"
#include "loader/dataset/internal/table_files.h"
#include "loader/dataset/tokens/tokenizer_identity.h"

namespace isocost {

/// The findings of an earlier start of a data set with the same options. A shard is known if
/// its file, its index and its tokens have the sizes and times that they had then.
class DatasetTable {
 public:
  /// Reads the table of the shards of all sources, if there is one. `tokenizer` is null if the
  /// shards' own texts are used. There is none if it is not known what check_shape depends on.
  DatasetTable(std::span<const ListedSource> sources, const DatasetOptions& options,
               const TokenizerIdentity* tokenizer);

  /// Moves what is known of a shard, numbered among those of all sources, to `shards` at `at`.
  /// Returns false if nothing is known. Several threads may ask at once, each for other shards.
  bool take(std::size_t shard, const ListedSource& source, SelectedShards& shards, std::size_t at);

  /// Keeps what this start found, unless it is what the table says already.
  void keep(const SelectedShards& all);

 private:
  const DatasetOptions& options_;
  std::vector<std::uint64_t> keys_;  // of the shards of all sources
  TableIdentity identity_;
  std::optional<TableFiles> files_;  // nothing: no table
  ShardTable known_;
  std::unordered_map<std::uint64_t, std::size_t> rows_;  // by key: in `known_`
  std::vector<char> taken_;                              // by shard; each is set by one thread
};

}  // namespace isocost
