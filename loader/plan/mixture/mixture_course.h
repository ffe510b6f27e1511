#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "loader/plan/mixture/mixture.h"

namespace isocost {

/// The samples that the sources of a mixture give over many positions.
struct MixtureCourse {
  struct Source {
    std::string name;
    std::uint64_t size = 0;            ///< Usable samples.
    std::vector<std::uint64_t> drawn;  ///< Samples given before each of `edges`.
    /// The position with which it has got all of its epochs; kNever if it has not by the last edge.
    std::uint64_t ended_with = kNever;
  };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  std::vector<std::uint64_t> edges;  ///< Ascending positions, from 0 to the last one asked for.
  std::vector<Source> sources;       ///< In the order of their names.
};

/// Returns the number of positions that a look at a mixture goes over: its length or, without one,
/// a quarter more than its last breakpoint, and 1,000 at least.
std::uint64_t positions_to_show(const Mixture& mixture);

/// Returns what the sources give to the first `positions`, at 2 to `most` edges at equal distances.
/// Walks over all of these positions, which takes some 0.4 s for 10^6. Errors: kCancelled.
Result<MixtureCourse> course_of(const Mixture& mixture, std::uint64_t positions,
                                std::size_t most = 201, const std::stop_token& stop = {});

}  // namespace isocost
