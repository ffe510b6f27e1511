#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "balancer/partition/internal/partition.h"
#include "balancer/partition/internal/subsets.h"

namespace isocost {

/// The bins of a search with what it asks of them again and again: loads, the order by load, the
/// subsets of their items. Single-thread; `problem` and `bins` are the caller's and outlive it.
class BinStates {
 public:
  BinStates(const Partition& problem, Bins& bins);

  std::size_t size() const { return bins_.size(); }
  const std::vector<std::uint32_t>& items(std::size_t bin) const { return bins_[bin]; }
  const std::array<double, kMaxDimensions>& load(std::size_t bin) const {
    return states_[bin].load;
  }
  /// Of all dimensions, times the bin's slowdown.
  double largest(std::size_t bin) const { return states_[bin].largest; }
  std::int64_t bytes(std::size_t bin) const { return states_[bin].bytes; }

  /// By largest load: (load, bin), ascending.
  const std::vector<std::pair<double, std::size_t>>& order() const { return order_; }
  double makespan() const { return order_.back().first; }

  /// False where the sum of the two alone keeps one of them from its limit. Cheap.
  bool may_split(std::size_t a, std::size_t b, const SplitLimits& limits) const;
  /// The best division of the two within the limits. `work` is lowered by what it cost, in units of
  /// a look at an ordinary pair.
  std::optional<Split> split(std::size_t a, std::size_t b, const SplitLimits& limits,
                             std::int64_t& work);
  void apply(std::size_t a, std::size_t b, const Split& split);
  void replace(std::size_t bin, std::vector<std::uint32_t> items);

 private:
  struct State {
    std::array<double, kMaxDimensions> load{};
    double largest = 0;
    std::int64_t bytes = 0;
    Subsets subsets;
    bool built = false;
  };

  void choose_key_dimension();
  void weigh(std::size_t bin);
  const Subsets& subsets(std::size_t bin);

  const Partition& problem_;
  Bins& bins_;
  std::vector<State> states_;
  std::vector<std::pair<double, std::size_t>> order_;
  std::size_t key_dimension_ = 0;
  Subsets::Scratch scratch_;
};

}  // namespace isocost
