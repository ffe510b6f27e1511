#pragma once

#include <cstddef>
#include <cstdint>

namespace isocost {

/// Returns a number of a pipeline (stage, chunk, slot, operation) as it is stored: there are far
/// fewer of each than 32 bits count.
constexpr std::uint32_t narrow(std::size_t value) { return static_cast<std::uint32_t>(value); }

}  // namespace isocost
