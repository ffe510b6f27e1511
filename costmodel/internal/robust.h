#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace isocost {

/// Some hundred of many values tell their median and spread. Whether the one at `index` of `count`
/// is among them: scattered, since values come in the order of ranks or of microbatches.
constexpr bool is_sampled(std::size_t index, std::size_t count) {
  constexpr std::uint32_t kGolden = 2'654'435'769;  // Knuth's multiplicative hash
  const std::uint32_t scattered = static_cast<std::uint32_t>(index) * kGolden;
  return (scattered >> 8) % (1 + count / 128) == 0;
}

/// Of unordered values, which are shuffled; of an even count the mean of the two middle ones. 0 of
/// none.
double median(std::span<double> values);

/// The same, but of an even count the one of the two middle values that is nearer to `usual`: where
/// half of the values have changed, they do not speak for the others.
double median_near(std::span<double> values, double usual);

/// Deviation of the bulk of the values around `centre`: that of a normal distribution with the same
/// median distance (1.4826 times it). Values are overwritten.
double robust_deviation(std::span<double> values, double centre);

/// Deviations that are not significant become none, large ones stay nearly what they are: a sharper
/// relative of the garrote (Breiman 1995), which shrinks by the square of noise over deviation;
/// here it is the fourth power. `noise` is what deviations reach by chance where there is no
/// effect.
double significant(double deviation, double noise);

}  // namespace isocost
