#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "balancer/partition/internal/partition.h"

namespace isocost {

/// All sub-multisets of a bin's (at most kFreeItems) free items with their loads, sorted by their
/// load in one dimension. Built once per content of a bin, used against every partner.
class Subsets {
 public:
  static constexpr std::size_t kFreeItems = 8;
  struct Entry {
    double key;  // load in the key dimension
    std::uint32_t mask;
  };

  /// `items` of a bin; where there are more than kFreeItems, a spread of sizes is free and the rest
  /// stays put.
  using Scratch = std::vector<Entry>;
  void build(const Partition& problem, const std::vector<std::uint32_t>& items,
             std::size_t key_dimension, Scratch& scratch);

  const std::vector<Entry>& sorted() const { return sorted_; }
  const double* load(std::uint32_t mask) const { return &loads_[mask * dimensions_]; }
  std::int64_t bytes(std::uint32_t mask) const { return bytes_.empty() ? 0 : bytes_[mask]; }
  const std::vector<std::uint32_t>& free_items() const { return free_; }
  const std::vector<std::uint32_t>& fixed_items() const { return fixed_; }
  const std::array<double, kMaxDimensions>& fixed_load() const { return fixed_load_; }
  std::int64_t fixed_bytes() const { return fixed_bytes_; }

 private:
  void choose_free(const Partition& problem, const std::vector<std::uint32_t>& items);
  void tabulate(const Partition& problem);
  void sort(const Partition& problem, std::size_t key_dimension, Scratch& merged);

  std::size_t dimensions_ = 1;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> fixed_;
  std::array<double, kMaxDimensions> fixed_load_{};
  std::int64_t fixed_bytes_ = 0;
  std::vector<double> loads_;  // [mask][dimension]
  std::vector<std::int64_t> bytes_;
  std::vector<Entry> sorted_;
};

/// Two bins that share their items anew.
struct Pair {
  const Subsets& first;
  const Subsets& second;
  double first_slowdown = 1;  ///< Multiplies the load.
  double second_slowdown = 1;
};

/// Asks for a division by what lies above a target: the sum over both bins and all dimensions of
/// (load / target - 1)², where that is positive.
struct Evenness {
  double inverse_target = 0;
  double first_weight = 1;  ///< Of the first bin's part.
  double below = 0;         ///< The value stays below this.
};

/// What a division must keep to. Loads have their bin's slowdown applied.
struct SplitLimits {
  double first = 0;                   ///< The first bin's largest load is below this,
  double second = 0;                  ///< and the second's below this.
  double enough = 0;                  ///< A value as small as this ends the search.
  std::optional<Evenness> even = {};  ///< The value; else it is the larger of the two loads.
};

/// How two bins may share their items anew.
struct Split {
  double value;
  std::uint32_t kept_mask;  // free items of the first bin that it keeps
  std::uint32_t got_mask;   // free items of the second bin that the first gets
};

/// The best division of two bins' items between them within the limits, other than that bins of one
/// slowdown change places, found by meeting in the middle: all 2^(n+m) divisions of the free items
/// are covered in about 2^n + 2^m steps, because the divisions that keep the key dimension below
/// the limits in both bins form a narrow window. `steps` is raised by the divisions looked at, and
/// the search gives up beyond kMaxSteps of them (a dimension in which all are alike opens the
/// window).
inline constexpr std::int64_t kMaxSteps = 8192;
std::optional<Split> best_split(const Partition& problem, const Pair& pair,
                                std::size_t key_dimension, const SplitLimits& limits,
                                std::int64_t& steps);

}  // namespace isocost
