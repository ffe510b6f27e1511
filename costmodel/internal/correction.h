#pragma once

#include <cstddef>
#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/internal/nnls.h"

namespace isocost {

/// Learns one module's coefficients from (load, seconds) of microbatches. It fits relative errors:
/// every row is divided by its seconds, so short microbatches count as much as long ones.
///
/// The first kWarmUp measurements are kept and refitted together, because a profile of another
/// machine may be wrong by a factor of a thousand and only several measurements tell its scale from
/// an outlier. After that, normal equations with forgetting, and measurements are clipped to a few
/// typical errors around their prediction (Huber). kRestart clipped ones in a row are no outliers:
/// the model has changed, and learning starts anew from them.
class Correction {
 public:
  Correction(const ModuleCoefficients& profile, double half_life, double prior_strength);

  /// Load not empty, seconds positive and finite.
  void observe(const ModuleLoad& load, double seconds);
  const ModuleCoefficients& coefficients() const { return coefficients_; }

 private:
  struct Row {
    TermVector terms;
    double seconds;
  };
  static constexpr std::size_t kWarmUp = 16;
  static constexpr std::size_t kRestart = 12;

  bool restarted(bool clipped, const Row& row);
  void warm_up();
  void finish_warm_up();
  void accumulate(const TermVector& terms, double seconds, double divisor);
  void track_error(double relative_error);
  void solve();
  double predicted(const TermVector& terms) const;

  TermVector profile_;
  double decay_;
  double prior_strength_;
  double scale_ = 1;          // this machine's seconds over the profile's
  double typical_error_ = 0;  // running median of relative errors
  std::vector<Row> first_;    // of the warm-up; later, the latest run of clipped ones
  bool warming_ = true;
  TermMatrix a_{};     // sum of terms·termsᵀ / divisor²
  TermVector b_{};     // sum of terms·seconds / divisor²
  double weight_ = 0;  // how many measurements that is, after forgetting
  ModuleCoefficients coefficients_;
};

}  // namespace isocost
