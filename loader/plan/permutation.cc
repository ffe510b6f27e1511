#include "loader/plan/permutation.h"

#include <algorithm>
#include <bit>

#include "base/random.h"

namespace isocost {
namespace {

// With fewer bits per half, most permutations of a short range would be unreachable.
constexpr unsigned kMinHalfBits = 4;

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t size)
    : size_(size),
      half_bits_(std::max(
          kMinHalfBits,
          (static_cast<unsigned>(std::bit_width(std::max<std::uint64_t>(size, 1) - 1)) + 1) / 2)) {
  // The seed is hashed before the epoch is added, so that neighbouring seeds and epochs share no
  // keys.
  const std::uint64_t seed_hash = Random(seed).next();
  Random keys(Random(seed_hash + epoch).next());
  for (std::uint64_t& key : keys_) key = keys.next();
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (const std::uint64_t key : keys_) {
    // SplitMix64's finaliser mixes well; any function of (right, key) keeps it a permutation.
    const std::uint64_t next = left ^ (Random(key ^ right).next() >> 32 & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::at(std::uint64_t index) const {
  // The walk stays on the index's cycle, so it comes back into the range, after at most four steps
  // on average (more below 64, where they cost nothing).
  std::uint64_t value = encrypt(index);
  while (value >= size_) value = encrypt(value);
  return value;
}

}  // namespace isocost
