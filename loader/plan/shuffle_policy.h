#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace isocost {

/// The order in which an epoch draws the samples.
enum class ShufflePolicy : std::uint8_t {
  kOff,     ///< The order of the shards.
  kGlobal,  ///< A permutation of the whole data set.
  kBlocks,  ///< Windows of shards in random order, the samples of a window permuted: BlockOrder.
};

/// Names of the policies in flags and messages, in the order of the enumerators.
inline constexpr std::array<std::string_view, 3> kShufflePolicyNames = {"off", "global", "blocks"};

}  // namespace isocost
