#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost::cli {

/// A node's metrics at one moment, as read from /metrics. Modules are those that the node names.
struct Scrape {
  struct Module {
    double error = std::numeric_limits<double>::quiet_NaN();  ///< So where nothing was measured.
    double fixed_factor = 1;
    std::map<std::int64_t, double> factors;  ///< By the bucket's least sequence length.
  };
  struct Seconds {
    double predicted = 0;
    double measured = 0;
  };
  struct Rank {
    double slowdown_factor = 1;
    double busy = 0;
    double idle = 0;
    double data_wait = 0;
    std::map<std::string, Seconds> modules;
    std::string place;  ///< In a layout; empty without one.
  };
  std::map<std::string, double> values;  ///< Series without labels, by name without "isocost_".
  std::map<std::string, Module> modules;
  std::map<std::int64_t, Rank> ranks;

  /// Of `values`: `value` is 0 where the node does not say, `known` is NaN.
  double value(const std::string& name) const;
  double known(const std::string& name) const;
};

/// Errors: kCorrupt for bytes that are no metrics; kUnsupported for another program's. Whatever
/// they hold, the names in a scrape are plain letters, digits, '_', '.', and in places ',' and ' '.
Result<Scrape> read_scrape(std::string_view text);

/// What is shown: gauges as they are `now`, counters as they grew since `before`. An empty `before`
/// is the node's start.
struct TopView {
  std::string url;
  const Scrape& now;
  const Scrape& before;
};

/// A document; every number that is not known is null.
std::string top_json(const TopView& view);
/// Lines of plain ASCII; `most_ranks` of the ranks, the busiest first where there are more.
std::string top_table(const TopView& view, std::size_t most_ranks);

}  // namespace isocost::cli
