#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "loader/dataset/catalogue/bad_sample.h"
#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/catalogue/shard_row.h"
#include "loader/dataset/catalogue/shard_selection.h"

namespace isocost {

/// Shards of which a start knows all that it needs. Each vector has an element for each of them.
struct SelectedShards {
  std::vector<ShardRow> rows;
  std::vector<ShardSelection> selections;
  /// Samples that indexing found bad, then those without tokens, and those over a limit.
  std::vector<std::vector<BadSample>> bad;
  std::vector<std::shared_ptr<const Shard>> held;  ///< The shards whose indexes are in no file.

  std::size_t size() const { return rows.size(); }
  void resize(std::size_t shards);
  void append(SelectedShards&& more);
};

}  // namespace isocost
