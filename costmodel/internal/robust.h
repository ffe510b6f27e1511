#pragma once

#include <span>

namespace isocost {

/// Of unordered values, which are shuffled; the lower of the two middle ones where their count is
/// even. 0 of none.
double median(std::span<double> values);

/// Deviation of the bulk of the values around `centre`: that of a normal distribution with the same
/// median distance (1.4826 times it). Values are overwritten.
double robust_deviation(std::span<double> values, double centre);

/// Non-negative garrote (Breiman 1995): deviations that are not significant become none, large ones
/// stay nearly what they are. `noise` is what deviations from no effect reach by chance.
double significant(double deviation, double noise);

}  // namespace isocost
