#pragma once

#include <cstddef>
#include <string>

#include "loader/metrics/snapshot.h"

namespace isocost::cli {

inline constexpr std::size_t kTopColumns = 80;

/// Values that `isocost top` shows: gauges as they are in `now`, counters as they grew since
/// `before`. With an empty `before`, or one of an earlier process, they count from the node's
/// start. Both come from `parse_status`, so that each list of ranks has one entry per rank.
struct TopView {
  std::string url;
  const NodeMetrics& now;
  const NodeMetrics& before;
};

/// Returns a JSON document; an unknown number is null.
std::string top_json(const TopView& view);
/// Returns the number of lines that the sources of a mixture take in the table.
std::size_t source_rows(const NodeMetrics& now);
/// Returns lines of printable ASCII, each of at most kTopColumns columns, with at most `most_ranks`
/// ranks, the busiest of them.
std::string top_table(const TopView& view, std::size_t most_ranks);

}  // namespace isocost::cli
