#pragma once

#include <array>
#include <cstdint>

namespace isocost {

/// A keyed permutation of 0 .. size-1 with random access and constant memory: a balanced Feistel
/// network over the next power of four, with cycle walking back into the range (J. Black, P.
/// Rogaway: "Ciphers with Arbitrary Finite Domains", CT-RSA 2002). Four rounds suffice against an
/// observer of few values (M. Luby, C. Rackoff, 1988); eight make short ranges uniform, too.
/// Immutable.
class Permutation {
 public:
  Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t size);

  /// Returns the value at `index`, which must be below `size`.
  std::uint64_t at(std::uint64_t index) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  unsigned half_bits_;
  std::array<std::uint64_t, 8> keys_{};
};

}  // namespace isocost
