#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/dataset/catalogue/broken_shard.h"
#include "loader/dataset/catalogue/shard_listing.h"
#include "loader/dataset/catalogue/shard_row.h"

namespace isocost {

/// The faults of whole shards and of their directory, by name. Those of samples are BadSample.
struct ShardFindings {
  std::size_t shards = 0;  ///< All shards, also lost ones.
  std::vector<BrokenShard> broken;
  /// Archives that are not read, and what is to be done: "name: reason".
  std::vector<std::string> unread;
  /// Shards without the mark that ends a tar file, too few to be damaged (missing_end_marks.h), and
  /// without a sample that is known to be missing.
  std::vector<std::string> without_end_mark;
};

/// Collects what the listing and the rows of its shards say, of a source with this name or of the
/// only one. `rows` has an element for each of `listing.shards`.
ShardFindings shard_findings(const ShardListing& listing, std::span<const ShardRow> rows,
                             std::string_view source = {});

/// Joins the findings of several sources.
ShardFindings joined_findings(std::span<const ShardFindings> findings);

}  // namespace isocost
