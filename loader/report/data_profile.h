#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "decode/recipe.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/dataset.h"
#include "loader/plan/plan_options.h"
#include "loader/report/savings.h"

namespace isocost {

struct DataProfileOptions {
  RecipeOptions recipe;
  CostProfile model_profile = CostProfile::stated_default();
  std::uint64_t samples = 10'000;  ///< Most samples, drawn without replacement; 0: all.
  std::uint64_t seed = 0;
  std::int64_t global_batch_size = 512;
  std::int64_t ranks = 8;
  std::int64_t microbatches = 4;     ///< Microbatches per rank.
  std::int64_t batches = 32;         ///< Global batches that the skew is computed from.
  std::int64_t most_expensive = 10;  ///< Length of the list of the most expensive samples.
  std::int64_t gpus = 0;  ///< GPUs of the job, to say what a week saves; 0: one for each rank.
  std::optional<double> price_per_gpu_hour = {};
  /// CPU seconds of a loader node for a sample, measured; nothing if not known.
  std::optional<double> loader_s_per_sample = {};
  double gpu_hours = 0;  ///< GPU-hours of a run with policy in-order, all ranks; 0: not known.
  ProgressSink progress;
  std::stop_token stop;

  /// Checks the values. Errors: kInvalidArgument with field, value and allowed range.
  Status validate() const;
};

/// A sample's load, according to the index and the recipe, and its predicted seconds.
struct ProfiledSample {
  SampleId id = 0;
  Load load;
  ModuleSeconds seconds{};

  double encoder_s() const;  ///< Returns the seconds of vision and audio.
  double llm_s() const { return seconds[static_cast<std::size_t>(CostModule::kLlm)]; }
  double total_s() const { return encoder_s() + llm_s(); }
};

struct ModalityCount {
  std::uint64_t samples = 0;  ///< Samples that have a part of this modality.
  std::uint64_t parts = 0;
  std::int64_t encoded_bytes = 0;
};

struct ExpensiveSample {
  std::string shard;
  std::string key;
  std::string parts;  ///< Text such as "video + text".
  ProfiledSample sample;
};

/// Predicted skew of global batches of the profiled samples by policy, planned as a node plans them
/// (see plan_step): means over the batches, and standard deviations over them. The seconds of a
/// rank are the sum of its microbatches'.
struct CostSkew {
  struct Policy {
    double microbatch_max_over_mean = 1;
    double microbatch_max_over_mean_deviation = 0;
    std::array<double, kModules> module_max_over_mean{};  ///< For microbatches; 0: no such work.
    double rank_max_over_mean = 1;
    double rank_max_over_mean_deviation = 0;
    double step_s = 0;  ///< Seconds of the slowest rank.
    double step_s_deviation = 0;
    /// Share of the step seconds of policy in-order that this one saves; 0 for in-order itself.
    double saved_share = 0;
    double saved_share_deviation = 0;
    std::vector<double> example_rank_s;  ///< Rank seconds of the first batch, [ranks].
  };
  std::array<Policy, kBalancePolicyNames.size()> policies;  ///< In the order of the enumerators.

  Policy& operator[](BalancePolicy policy) { return policies[static_cast<std::size_t>(policy)]; }
  const Policy& operator[](BalancePolicy policy) const {
    return policies[static_cast<std::size_t>(policy)];
  }
};

/// GPU-hours of training, all ranks together, by policy.
struct GpuHours {
  /// Whether the hours are those of the run that the options describe; otherwise, of a pass over
  /// the data.
  bool of_run = false;
  std::array<double, kBalancePolicyNames.size()> by_policy{};  ///< In the order of the enumerators.

  double of(BalancePolicy policy) const { return by_policy[static_cast<std::size_t>(policy)]; }
  /// Returns the hours of policy in-order that this one saves.
  double saved(BalancePolicy policy) const { return of(BalancePolicy::kInOrder) - of(policy); }
};

/// The samples of a source of a mixture: sums over those that were profiled.
struct ProfiledSource {
  std::string name;
  std::uint64_t size = 0;      ///< Usable samples.
  std::uint64_t profiled = 0;  ///< Samples among DataProfile::samples.
  std::int64_t tokens = 0;
  std::int64_t label_tokens = 0;
  double seconds = 0;

  /// Returns the estimate of a sum over all of its samples; 0 if none was profiled.
  double of_all(double sum) const;
};

/// Loads and predicted cost of a data set, computed only from its index.
struct DataProfile {
  DataProfileOptions options;
  std::string directory;
  std::string model_profile_source;
  std::uint64_t fingerprint = 0;   ///< Fingerprint of the data set.
  std::uint64_t dataset_size = 0;  ///< Samples without the bad ones.
  std::uint64_t bad = 0;           ///< Samples that indexing found bad.
  std::uint64_t refused = 0;       ///< Profiled samples that the recipe refused.
  std::string refused_example;     ///< Name of the first refused sample, and why.

  std::vector<ProfiledSample> samples;  ///< In ascending order of their ids.
  std::vector<ProfiledSource> sources;  ///< Those of a mixture; without one none.
  std::array<ModalityCount, 4> modalities;
  /// Pearson's and Spearman's correlation of encoder and LLM seconds; none if either does not vary.
  std::optional<double> correlation;
  std::optional<double> rank_correlation;
  /// Share of all seconds that the most expensive 1 % of the samples take.
  double most_expensive_percent_share = 0;
  std::vector<ExpensiveSample> most_expensive;  ///< In descending order of seconds.
  CostSkew skew;

  /// Returns the hours; nothing if the options do not give a run's hours and the model profile is
  /// the default one, which gives proportions only.
  std::optional<GpuHours> gpu_hours() const;
  /// Returns what balancing saves. The steps are those of `skew`, and ranks that finish before the
  /// slowest are idle.
  Savings savings() const;
  SampleBytes sample_bytes() const;
  /// Returns what the loader needs; nothing if the model profile is the default one.
  std::optional<LoaderNeeds> loader_needs() const;
  /// Returns all figures and the loads of the samples; docs/data_profile.md holds the format.
  std::string to_json() const;
};

/// A number of a sample that tables show.
struct SampleQuantity {
  std::string_view name;  ///< Name in JSON: "vision_patches".
  std::string_view text;  ///< Name for people, with the unit.
  double (*of)(const ProfiledSample&);
};
/// Returns loads, bytes and seconds, in the order of the tables.
const std::vector<SampleQuantity>& sample_quantities();
std::vector<double> values_of(const DataProfile& profile, const SampleQuantity& quantity);

/// Profiles samples by their shapes; nothing is decoded. Blocks, on one thread. Deterministic.
/// Errors: those of `validate` and Recipe::create; kNotFound if the recipe refuses every sample;
/// kCancelled.
Result<DataProfile> make_data_profile(const Dataset& dataset,
                                      const std::filesystem::path& directory,
                                      const DataProfileOptions& options);

/// Returns the loads of a document that DataProfile::to_json wrote. Errors: kCorrupt naming what is
/// missing, mistyped or out of range; kUnsupported for another version.
Result<std::vector<Load>> parse_profiled_loads(std::string_view json);
/// Reads and parses a file of at most 256 MiB. Errors: those of parse_profiled_loads, naming the
/// file; kNotFound, kIo.
Result<std::vector<Load>> load_profiled_loads(const std::filesystem::path& file);

}  // namespace isocost
