#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "costmodel/profile.h"

namespace isocost {

/// Where a prediction comes from.
enum class PriceOrigin : std::uint8_t {
  kStated,        ///< Coefficients that nobody measured.
  kMeasured,      ///< Sequences of a length that was measured.
  kInterpolated,  ///< Between measured lengths.
  kExtrapolated,  ///< Beyond them, or beyond the largest load that was measured.
};
/// "stated", "measured", "interpolated", "extrapolated".
std::string_view price_origin_name(PriceOrigin origin);

/// A module's seconds by its profile alone. A microbatch costs something whatever it holds, and
/// each sequence what its length asks: by the measured points, interpolated monotonically over the
/// length, and beyond them by the fitted form, joined without a step. Batch-dependent throughput
/// other than the fixed part is left out. Immutable.
class ModulePredictor {
 public:
  explicit ModulePredictor(const ModuleProfile& profile);

  /// What a microbatch costs whatever it holds.
  double fixed() const { return coefficients_.per_microbatch; }
  /// What a sample adds to a microbatch, without fixed(). Its sequences count as all of their
  /// typical length.
  double sample(const ModuleLoad& load) const;
  double microbatch(const ModuleLoad& load) const;

  PriceOrigin origin(const ModuleLoad& load) const;
  /// Relative error to expect: what the points miss their own prediction by, their spread, and a
  /// tenth an octave beyond the measured region; a half where nothing was measured.
  double uncertainty(const ModuleLoad& load) const;

 private:
  struct Knot {
    double log_length = 0;   // base 2
    double log_seconds = 0;  // of one sequence, base 2
  };
  void add_knots(const std::vector<ProfilePoint>& points);
  double sequence_seconds(double log_length) const;
  double octaves_beyond(const ModuleLoad& load) const;

  ModuleCoefficients coefficients_;
  std::vector<Knot> knots_;  // both ascending; empty: the form alone
  double most_units_ = 0;
  double error_ = 0;
};

}  // namespace isocost
