#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/load.h"
#include "base/result.h"
#include "base/units.h"

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
};

/// Where prediction starts. Either measured (a profile file) or the stated default.
struct CostProfile {
  std::array<ModuleCoefficients, kModules> modules;
  std::string source;  ///< "default", or the file it came from.

  /// A stated guess from FLOP counts, right in its proportions only: see docs/cost_model.md.
  static CostProfile stated_default();
  /// JSON, see docs/cost_model.md. Errors: kNotFound, kIo, kCorrupt naming the field that is
  /// missing, unknown, mistyped, negative or not finite, kUnsupported for another version.
  static Result<CostProfile> parse(std::string_view json);
  static Result<CostProfile> load(const std::filesystem::path& file);
  std::string to_json() const;
};

/// Seconds of one module for a load. Pure.
Seconds predict(const ModuleCoefficients& coefficients, const ModuleLoad& load);

/// Seconds of a sample or microbatch, module by module.
using ModuleSeconds = std::array<double, kModules>;

/// One measured microbatch: its load and what it took. Negative seconds: that module was not
/// measured.
struct Measurement {
  Load load;
  ModuleSeconds seconds{};
};

/// Predicts, and corrects itself from measurements while training runs: regularised non-negative
/// least squares with forgetting over measured microbatches, drawn towards the profile while
/// evidence is thin. Deterministic in the sequence of calls. Single-thread.
class CostModel {
 public:
  struct Options {
    bool correct = true;
    double half_life = 512;     ///< Measurements after which one counts half; > 0.
    double prior_strength = 8;  ///< Measurements that the profile's proportions are worth, were
                                ///< measurements as uncertain as they are (50 %); >= 0.
  };
  CostModel(CostProfile profile, const Options& options);
  ~CostModel();
  CostModel(CostModel&& other) noexcept;
  CostModel& operator=(CostModel&& other) noexcept;

  /// Seconds that a sample adds to a microbatch (without per_microbatch).
  ModuleSeconds predict_sample(const Load& load) const;
  ModuleSeconds predict_microbatch(const Load& load) const;

  /// Takes one measurement in. A module with negative seconds, with zero seconds or with an empty
  /// load says nothing about that module. Errors: kInvalidArgument for NaN or infinite seconds,
  /// seconds beyond a day, and negative loads: the whole measurement is dropped and counted.
  Status observe(const Measurement& measurement);

  const std::array<ModuleCoefficients, kModules>& coefficients() const;
  /// Mean absolute percentage error of the predictions made before each measurement was seen, over
  /// the last 256 microbatches, module by module; NaN where nothing was measured.
  ModuleSeconds mape() const;
  std::int64_t measurements() const;
  std::int64_t rejected() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isocost
