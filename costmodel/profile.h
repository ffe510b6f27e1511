#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "base/units.h"
#include "costmodel/architecture.h"

namespace isocost {

/// Non-negative weights of a module's seconds for one microbatch, forward and backward together:
///   seconds = per_microbatch·[load not empty] + per_sequence·sequences + per_unit·units
///             + per_unit_squared·units_squared
/// Not modelled: communication, and effects of other modules.
struct ModuleCoefficients {
  double per_microbatch = 0;
  double per_sequence = 0;
  double per_unit = 0;
  double per_unit_squared = 0;

  bool operator==(const ModuleCoefficients&) const = default;
};

/// Returns the seconds of the form for a load; 0 for an empty one. Pure.
Seconds predict(const ModuleCoefficients& coefficients, const ModuleLoad& load);

/// Measurement of a module with one load.
struct ProfilePoint {
  ModuleLoad load;
  double forward_s = 0;   ///< Median.
  double backward_s = 0;  ///< Median; 0 for a module that is not trained.
  double spread = 0;      ///< Half of the median's 95 % interval, relative: 0.03 is 3 %.
  /// Peak memory above what the module holds at rest; 0: not measured.
  std::int64_t peak_bytes = 0;

  double seconds() const { return forward_s + backward_s; }
};

/// Measurements of a part of the module: one of `tensor` ranks that share its layers (with their
/// communication), or the module with only some of its layers.
struct ProfileCut {
  std::int64_t tensor = 1;
  std::int64_t layers = 0;  ///< Number of layers kept; 0: all.
  std::vector<ProfilePoint> points;
};

struct ModuleProfile {
  ModuleCoefficients coefficients;   ///< Stated coefficients, or those fitted to the points.
  std::vector<ProfilePoint> points;  ///< Empty if the coefficients were stated.
  ModuleLoad out_of_memory;          ///< The smallest load that ran out of memory; empty: none.
  /// Dimensions of the module, required for memory and layouts.
  std::optional<Architecture> architecture;
  /// At most one for each pair of tensor and layers; none is the whole module. See cuts.h.
  std::vector<ProfileCut> cuts;
  /// The forward pass's part of the module's seconds as it is trained, 0 to 1; 1: it is frozen.
  /// Only of layers measured in training, which may be trained unlike the layout says. Empty: the
  /// layout says it.
  std::optional<double> forward_share = {};
};

/// A model profile: the basis of predictions. Either measured (a profile file) or the built-in one.
struct CostProfile {
  static constexpr std::string_view kBuiltIn = "built-in";

  std::array<ModuleProfile, kModules> modules;
  std::string source;    ///< kBuiltIn, or the file it was read from.
  std::string hardware;  ///< Name given by the profiler: "NVIDIA A100-SXM4-80GB". Empty: unknown.
  std::string dtype;     ///< Type of the weights: "bfloat16". Empty: unknown.
  /// Versions of the software that was profiled (torch, CUDA).
  std::vector<std::pair<std::string, std::string>> versions;

  /// Returns an estimate from FLOP counts. Its proportions are right; its scale is not: see
  /// docs/cost_model.md.
  static CostProfile stated_default();
  /// Parses JSON, see docs/model_profile.md. Errors: kCorrupt naming the field that is missing,
  /// unknown, mistyped, negative or not finite, or the points that contradict each other;
  /// kUnsupported for another version.
  static Result<CostProfile> parse(std::string_view json);
  /// Reads and parses a file. Errors: kNotFound, kIo, and those of parse() with the file's name.
  static Result<CostProfile> load(const std::filesystem::path& file);
  std::string to_json() const;
  /// Returns a hash of the figures that predictions depend on. It does not depend on the source,
  /// the hardware or the versions.
  std::uint64_t fingerprint() const;
};

/// Returns whether `less` takes more than twice the seconds of `more`, although its load is not
/// larger. Noise and kernel selection do not explain such a difference.
inline bool contradicts(const ProfilePoint& less, const ProfilePoint& more) {
  constexpr double kTwice = 2;
  return less.load.sequences <= more.load.sequences && less.load.units <= more.load.units &&
         less.load.units_squared <= more.load.units_squared &&
         less.seconds() > kTwice * more.seconds();
}

/// Fits non-negative coefficients to the points by relative least squares; all zero for no points.
ModuleCoefficients fit_coefficients(const std::vector<ProfilePoint>& points);

}  // namespace isocost
