#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "costmodel/curve.h"
#include "costmodel/profile.h"

namespace isocost {

/// The basis of a prediction.
enum class PriceOrigin : std::uint8_t {
  kStated,        ///< Stated coefficients; nothing was measured.
  kMeasured,      ///< Sequences of a measured length.
  kInterpolated,  ///< Sequences between measured lengths.
  kExtrapolated,  ///< Sequences or loads beyond the measured range.
};
/// Returns "stated", "measured", "interpolated" or "extrapolated".
std::string_view price_origin_name(PriceOrigin origin);

/// Predicts a module's seconds only from its profile. A microbatch has fixed seconds, and each
/// sequence has seconds that depend on its length: interpolated monotonically between measured
/// points, and continued without a step by the fitted form beyond them. A factor that depends on
/// the microbatch's units accounts for small microbatches, which do not fill a device, and for
/// large ones, which exceed its caches; it is 1 at the largest measured microbatch. If the
/// points show that a device waits for its host, no microbatch takes less than its launches, and
/// the rest follows from the points that take longer. Immutable, thread-safe.
class ModulePredictor {
 public:
  explicit ModulePredictor(const ModuleProfile& profile);

  /// Returns the coefficients that apply beyond what was measured.
  const ModuleCoefficients& coefficients() const { return coefficients_; }
  /// Returns the seconds of a microbatch's launches, which it takes at least; 0 if the points show
  /// no such floor.
  double launches() const { return launches_s_; }
  /// Returns the seconds that a sample adds to a large microbatch. All its sequences count as
  /// having their typical length.
  double sample(const ModuleLoad& load) const;
  /// Returns the seconds of a microbatch of this load that grow with its samples. `samples` is the
  /// sum of sample() over them.
  double of_samples(const ModuleLoad& load, double samples) const;
  /// Returns the seconds of a microbatch of this load, fixed ones and launches included.
  double microbatch(const ModuleLoad& load, double samples) const;
  /// Returns the seconds of a microbatch that holds one sample of this load.
  double microbatch(const ModuleLoad& load) const { return microbatch(load, sample(load)); }

  PriceOrigin origin(const ModuleLoad& load) const;
  /// Returns the expected relative error: the error of the fit at the measured points, their
  /// spread, and 0.1 per octave beyond the measured range; 0.5 if nothing was measured.
  double uncertainty(const ModuleLoad& load) const;

 private:
  double octaves_beyond(const ModuleLoad& load) const;

  ModuleCoefficients coefficients_;
  double launches_s_ = 0;
  Curve sequence_;  // without knots: only the form applies
  Curve batch_;
  std::vector<double> log_lengths_;  // of the points, ascending
  double most_units_ = 0;
  double error_ = 0;
};

}  // namespace isocost
