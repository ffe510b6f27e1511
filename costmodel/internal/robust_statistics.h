#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace isocost {

/// Returns whether the value at `index` of `count` belongs to a sample of about one hundred values,
/// which suffices for a median and a spread. The sample is scattered, because values come in the
/// order of ranks or microbatches.
constexpr bool is_sampled(std::size_t index, std::size_t count) {
  constexpr std::uint32_t kGolden = 2'654'435'769;  // Knuth's multiplicative hash
  const std::uint32_t scattered = static_cast<std::uint32_t>(index) * kGolden;
  return (scattered >> 8) % (1 + count / 128) == 0;
}

/// Standard deviation of a median over that of a mean of the same values, if they are normally
/// distributed.
inline constexpr double kMedianDeviation = 1.25;

/// Returns the median; for an even count the one of the two middle values that is nearer to
/// `usual`, since half of the values may have changed and these must not affect the others. Returns
/// `usual` for no values. Reorders `values`.
double median_near(std::span<double> values, double usual);

/// Returns 1.4826 times the median distance of the values from `centre`, which equals the standard
/// deviation of a normal distribution and ignores outliers. Overwrites `values`.
double robust_deviation(std::span<double> values, double centre);

/// Shrinks a deviation by its significance: 0 up to `noise`, and almost unchanged if it is large. A
/// sharper variant of the garrote (Breiman 1995), which shrinks by the square of noise over
/// deviation; this shrinks by the fourth power. `noise` is the largest deviation that chance
/// explains.
double significant(double deviation, double noise);

}  // namespace isocost
