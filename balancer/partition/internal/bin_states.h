#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "balancer/partition/internal/pair_split.h"
#include "balancer/partition/internal/partition.h"

namespace isocost {

/// A bin and its largest load. Ordered by load; bins of equal load by their number.
struct RankedBin {
  double load = 0;
  std::size_t bin = 0;
  auto operator<=>(const RankedBin&) const = default;
};

/// The bins of a search, with the derived values that the search reads repeatedly: loads, the order
/// by load, the subsets of each bin's items. Single-thread. `problem` and `bins` belong to the
/// caller and must outlive this object.
class BinStates {
 public:
  BinStates(const Partition& problem, Bins& bins);

  std::size_t size() const { return bins_.size(); }
  const std::vector<std::uint32_t>& items(std::size_t bin) const { return bins_[bin]; }
  const std::array<double, kMaxLoadDimensions>& load(std::size_t bin) const {
    return states_[bin].load;
  }
  /// Returns the bin's largest load over all dimensions, times its slowdown.
  double largest(std::size_t bin) const { return states_[bin].largest; }
  const Sizes& held(std::size_t bin) const { return states_[bin].held; }

  /// Returns all bins, ascending. The reference is valid until the next call.
  const std::vector<RankedBin>& order();
  double makespan() { return order().back().load; }

  /// Returns false if the sum of the two loads alone rules out every division within the limits.
  /// Cheap.
  bool may_split(std::size_t a, std::size_t b, const SplitLimits& limits) const;
  /// Returns the best division of the two bins within the limits, if there is one. Lowers `work` by
  /// the cost of the search; 1 is the cost of an ordinary pair.
  std::optional<Split> split(std::size_t a, std::size_t b, const SplitLimits& limits,
                             std::int64_t& work);
  void apply(std::size_t a, std::size_t b, const Split& split);
  void replace(std::size_t bin, std::vector<std::uint32_t> items);
  /// Exchanges the items at two places.
  void swap_items(std::size_t a, std::size_t at_a, std::size_t b, std::size_t at_b);

 private:
  struct State {
    std::array<double, kMaxLoadDimensions> load{};
    double largest = 0;
    double ranked = 0;   // the load under which it stands in order_
    bool moved = false;  // whether it is in moved_
    Sizes held{};
    Subsets subsets;
    bool built = false;
  };

  void choose_key_dimension();
  void weigh(std::size_t bin);
  void update(std::size_t bin);
  void rank_all();
  void reorder(const RankedBin& before, const RankedBin& now);
  const Subsets& subsets(std::size_t bin);

  const Partition& problem_;
  Bins& bins_;
  std::vector<State> states_;
  std::vector<RankedBin> order_;    // by `ranked`
  std::vector<std::size_t> moved_;  // bins that changed since order_ was read
  std::size_t key_dimension_ = 0;
  Subsets::Scratch scratch_;
};

}  // namespace isocost
