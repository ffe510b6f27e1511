#pragma once

#include <cstddef>
#include <span>

namespace isocost {

/// Some hundred of many values tell their median and spread: every so-manieth is enough.
constexpr std::size_t stride_for(std::size_t values) { return 1 + values / 128; }

/// Of unordered values, which are shuffled; of an even count the mean of the two middle ones. 0 of
/// none.
double median(std::span<double> values);

/// Deviation of the bulk of the values around `centre`: that of a normal distribution with the same
/// median distance (1.4826 times it). Values are overwritten.
double robust_deviation(std::span<double> values, double centre);

/// Deviations that are not significant become none, large ones stay nearly what they are: a sharper
/// relative of the garrote (Breiman 1995), which shrinks by the square of noise over deviation;
/// here it is the fourth power. `noise` is what deviations reach by chance where there is no
/// effect.
double significant(double deviation, double noise);

}  // namespace isocost
