#pragma once

#include <cstdint>
#include <string_view>

#include "costmodel/curve.h"
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
/// length, and beyond them by the fitted form, joined without a step. Small microbatches do not
/// fill a device and large ones leave its caches: a factor by the microbatch's units, one at the
/// largest that was measured, says how much. Immutable.
class ModulePredictor {
 public:
  explicit ModulePredictor(const ModuleProfile& profile);

  /// What a microbatch costs whatever it holds.
  double fixed() const { return coefficients_.per_microbatch; }
  /// What a sample adds to a large microbatch, without fixed(). Its sequences count as all of their
  /// typical length.
  double sample(const ModuleLoad& load) const;
  /// A microbatch of this load, whose samples add up to `samples` by `sample`.
  double microbatch(const ModuleLoad& load, double samples) const;
  /// The same as if it held one sample.
  double microbatch(const ModuleLoad& load) const { return microbatch(load, sample(load)); }

  PriceOrigin origin(const ModuleLoad& load) const;
  /// Relative error to expect: what the points miss their own prediction by, their spread, and a
  /// tenth an octave beyond the measured region; a half where nothing was measured.
  double uncertainty(const ModuleLoad& load) const;

 private:
  double octaves_beyond(const ModuleLoad& load) const;

  ModuleCoefficients coefficients_;
  Curve sequence_;  // no knots: the form alone
  Curve batch_;
  double most_units_ = 0;
  double error_ = 0;
};

}  // namespace isocost
