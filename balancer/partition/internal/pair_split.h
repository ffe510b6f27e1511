#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "balancer/partition/internal/partition.h"

namespace isocost {

/// All subsets of a bin's free items (at most kFreeItems) with their loads, sorted by their load in
/// one dimension. Built once per content of a bin and used against every partner.
class Subsets {
 public:
  static constexpr std::size_t kFreeItems = 8;
  struct Entry {
    double key;  // load in the key dimension
    std::uint32_t mask;
  };

  using Scratch = std::vector<Entry>;
  /// Builds the subsets of a bin's `items`. If there are more than kFreeItems, a selection of
  /// different sizes is free to move and the other items stay in their bin.
  void build(const Partition& problem, const std::vector<std::uint32_t>& items,
             std::size_t key_dimension, Scratch& scratch);

  const std::vector<Entry>& sorted() const { return sorted_; }
  const double* load(std::uint32_t mask) const { return &loads_[mask * dimensions_]; }
  /// Returns the amount that a subset's items hold of each resource, [R].
  const std::int64_t* sizes(std::uint32_t mask) const { return &sizes_[mask * resources_]; }
  const std::vector<std::uint32_t>& free_items() const { return free_; }
  const std::vector<std::uint32_t>& fixed_items() const { return fixed_; }
  const std::array<double, kMaxLoadDimensions>& fixed_load() const { return fixed_load_; }
  const Sizes& fixed_sizes() const { return fixed_sizes_; }

 private:
  void choose_free(const Partition& problem, const std::vector<std::uint32_t>& items);
  void tabulate(const Partition& problem);
  void sort(const Partition& problem, std::size_t key_dimension, Scratch& merged);

  std::size_t dimensions_ = 1;
  std::size_t resources_ = 0;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> fixed_;
  std::array<double, kMaxLoadDimensions> fixed_load_{};
  Sizes fixed_sizes_{};
  std::vector<double> loads_;        // [mask][dimension]
  std::vector<std::int64_t> sizes_;  // [mask][resource]
  std::vector<Entry> sorted_;
};

/// Two bins that redistribute their items.
struct Pair {
  const Subsets& first;
  const Subsets& second;
  double first_slowdown = 1;  ///< Factor on the load.
  double second_slowdown = 1;
};

/// Minimises the load above a target: the sum over both bins and all dimensions of
/// (load / target - 1)², where that is positive.
struct Evenness {
  double inverse_target = 0;
  double first_weight = 1;  ///< Weight of the first bin's part.
  double below = 0;         ///< Only values below this are accepted.
};

/// Constraints on a division. Loads include their bin's slowdown.
struct SplitLimits {
  double first = 0;                   ///< Upper limit of the first bin's largest load, exclusive.
  double second = 0;                  ///< Upper limit of the second bin's largest load, exclusive.
  double enough = 0;                  ///< A value <= this ends the search.
  std::optional<Evenness> even = {};  ///< Minimised if given; else the larger of both loads is.
};

/// A division of two bins' items.
struct Split {
  double value;
  std::uint32_t kept_mask;  // free items of the first bin that it keeps
  std::uint32_t got_mask;   // free items of the second bin that the first gets
};

/// Returns the best division of two bins' items within the limits. Bins of equal slowdown that only
/// exchange their contents do not count as a division. All 2^(n+m) divisions of the free items are
/// covered in about 2^n + 2^m steps by meeting in the middle: for each subset that the first bin
/// keeps, the subsets of the second bin that satisfy both limits in the key dimension form a narrow
/// window of the sorted list. Adds the number of divisions evaluated to `steps`; the search gives
/// up after kMaxSteps of them (the window is wide if all loads in the key dimension are equal).
inline constexpr std::int64_t kMaxSteps = 8192;
std::optional<Split> best_split(const Partition& problem, const Pair& pair,
                                std::size_t key_dimension, const SplitLimits& limits,
                                std::int64_t& steps);

}  // namespace isocost
