#pragma once

#include <utility>
#include <vector>

namespace isocost {

/// A function of a positive number: linear between knots in log2-log2 coordinates, constant beyond
/// the first and the last knot. Immutable.
class Curve {
 public:
  struct Knot {
    double log_x = 0;
    double log_y = 0;
  };
  /// Constructs the constant function 1.
  Curve() = default;
  /// `knots` must be in ascending order of log_x.
  explicit Curve(std::vector<Knot> knots) : knots_(std::move(knots)) {}

  double at(double x) const;
  const std::vector<Knot>& knots() const { return knots_; }

 private:
  std::vector<Knot> knots_;
};

}  // namespace isocost
