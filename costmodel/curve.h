#pragma once

#include <utility>
#include <vector>

namespace isocost {

/// A function of a positive number: straight lines between knots, both axes in logarithms of base
/// two, flat beyond the first and the last. Immutable.
class Curve {
 public:
  struct Knot {
    double log_x = 0;
    double log_y = 0;
  };
  /// One everywhere.
  Curve() = default;
  /// `knots` in ascending order of log_x.
  explicit Curve(std::vector<Knot> knots) : knots_(std::move(knots)) {}

  double at(double x) const;
  const std::vector<Knot>& knots() const { return knots_; }

 private:
  std::vector<Knot> knots_;
};

}  // namespace isocost
