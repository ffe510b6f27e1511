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

/// Non-negative weights of a module's seconds for one microbatch:
///   seconds = per_microbatch·[load not empty] + per_sequence·sequences + per_unit·units
///             + per_unit_squared·units_squared
/// Forward and backward together. Left out: communication, and whatever depends on the other
/// modules.
struct ModuleCoefficients {
  double per_microbatch = 0;
  double per_sequence = 0;
  double per_unit = 0;
  double per_unit_squared = 0;

  bool operator==(const ModuleCoefficients&) const = default;
};

/// Value of the form for a load; 0 for an empty one. Pure.
Seconds predict(const ModuleCoefficients& coefficients, const ModuleLoad& load);

/// A module measured with one load.
struct ProfilePoint {
  ModuleLoad load;
  double forward_s = 0;         ///< Median.
  double backward_s = 0;        ///< Median; 0 for a module that is not trained.
  double spread = 0;            ///< Half of the median's 95 % interval, relative: 0.03 is 3 %.
  std::int64_t peak_bytes = 0;  ///< Above what the module holds at rest; 0: not measured.

  double seconds() const { return forward_s + backward_s; }
};

/// The module measured cut otherwise: as one of `tensor` ranks that share its layers, with what
/// they say to each other, or with some of its layers alone.
struct ProfileCut {
  std::int64_t tensor = 1;
  std::int64_t layers = 0;  ///< Of its blocks; 0: all.
  std::vector<ProfilePoint> points;
};

struct ModuleProfile {
  ModuleCoefficients coefficients;   ///< Stated, or fitted to the points.
  std::vector<ProfilePoint> points;  ///< Empty where coefficients were stated.
  /// The smallest load that ran out of memory; empty: none did.
  ModuleLoad out_of_memory;
  /// What memory and layouts follow from; empty: not said.
  std::optional<Architecture> architecture;
  std::vector<ProfileCut> cuts;  ///< No two alike, and none of them whole; see cuts.h.
};

/// Where prediction starts. Either measured (a profile file) or the stated default.
struct CostProfile {
  std::array<ModuleProfile, kModules> modules;
  std::string source;    ///< "default", or the file it came from.
  std::string hardware;  ///< As the profiler found it: "NVIDIA A100-SXM4-80GB". Empty: not said.
  std::string dtype;     ///< "bfloat16". Empty: not said.
  std::vector<std::pair<std::string, std::string>> versions;  ///< Of what it ran on: torch, CUDA.

  /// A stated guess from FLOP counts, right in its proportions only: see docs/cost_model.md.
  static CostProfile stated_default();
  /// JSON, see docs/model_profile.md. Errors: kCorrupt naming the field that is missing, unknown,
  /// mistyped, negative or not finite, or the points that contradict each other; kUnsupported for
  /// another version.
  static Result<CostProfile> parse(std::string_view json);
  /// Errors: kNotFound, kIo, and those of parse as error_of_file has them.
  static Result<CostProfile> load(const std::filesystem::path& file);
  std::string to_json() const;
  /// Of what predictions follow from: equal for equal modules, wherever they were read from and
  /// whatever they say of the hardware.
  std::uint64_t fingerprint() const;
};

/// Whether `less` takes more than twice the seconds of `more`, which has no less to do:
/// measurements are noisy and kernels change at sizes, but not by this.
inline bool contradicts(const ProfilePoint& less, const ProfilePoint& more) {
  constexpr double kTwice = 2;
  return less.load.sequences <= more.load.sequences && less.load.units <= more.load.units &&
         less.load.units_squared <= more.load.units_squared &&
         less.seconds() > kTwice * more.seconds();
}

/// Non-negative coefficients nearest to the points in relative terms; all zero for no points.
ModuleCoefficients fit_coefficients(const std::vector<ProfilePoint>& points);

}  // namespace isocost
