#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

namespace isocost {

/// Random choices that a seed decides.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t limit) { return engine_() % limit; }
  bool one_in(std::size_t chances) { return below(chances) == 0; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace isocost
