#include "costmodel/curve.h"

#include <algorithm>
#include <cmath>

namespace isocost {

double Curve::at(double x) const {
  if (knots_.empty()) return 1;
  const double log_x = std::log2(x);
  const auto above =
      std::upper_bound(knots_.begin(), knots_.end(), log_x,
                       [](double value, const Knot& knot) { return value < knot.log_x; });
  if (above == knots_.begin()) return std::exp2(knots_.front().log_y);
  if (above == knots_.end()) return std::exp2(knots_.back().log_y);
  const Knot& below = *(above - 1);
  const double part = (log_x - below.log_x) / (above->log_x - below.log_x);
  return std::exp2(below.log_y + part * (above->log_y - below.log_y));
}

}  // namespace isocost
