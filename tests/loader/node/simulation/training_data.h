#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "transport/wire/messages.h"

namespace isocost {

/// A microbatch or an end of epoch, which a rank is given.
using Item = std::variant<Position, EpochEnd>;

/// The steps of a simulated job: a few epochs of a few steps with up to three microbatches a rank.
/// All samples of some steps are bad, and nothing is sent of these.
class TrainingData {
 public:
  static constexpr std::uint32_t kEpochs = 2;
  static constexpr std::uint32_t kSteps = 5;  ///< Number in an epoch.

  explicit TrainingData(std::uint64_t seed) : seed_(seed) {}

  /// Returns the number of microbatches that each rank has in a step; 0: all samples are bad.
  std::uint32_t microbatches(std::uint32_t epoch, std::uint32_t step) const {
    const std::uint64_t hash = (seed_ * 31 + epoch * 7 + step + 1) * 0x9E3779B97F4A7C15U >> 33;
    if (step == 1) return 1 + static_cast<std::uint32_t>(hash % 3);  // some step is good
    return static_cast<std::uint32_t>(hash % 4);
  }

  /// Returns all items from the first one of a step on.
  std::vector<Item> items_from(std::uint32_t epoch, std::uint32_t step) const {
    std::vector<Item> items;
    for (; epoch < kEpochs; ++epoch, step = 0) {
      for (; step < kSteps; ++step) {
        for (std::uint32_t m = 0; m < microbatches(epoch, step); ++m) {
          items.emplace_back(Position{epoch, step, m});
        }
      }
      items.emplace_back(end_of(epoch));
    }
    if (items.empty()) items.emplace_back(end_of(epoch));  // saved after the last epoch
    return items;
  }

  static EpochEnd end_of(std::uint32_t epoch) {
    return {.epoch = epoch, .steps = kSteps, .last_epoch = epoch + 1 >= kEpochs};
  }

 private:
  const std::uint64_t seed_;
};

inline bool operator==(const EpochEnd& a, const EpochEnd& b) { return a.epoch == b.epoch; }

}  // namespace isocost
