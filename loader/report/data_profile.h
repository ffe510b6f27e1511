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
#include "decode/sample_shape.h"
#include "loader/dataset/dataset.h"

namespace isocost {

struct DataProfileOptions {
  RecipeOptions recipe;
  CostProfile profile = CostProfile::stated_default();
  std::uint64_t samples = 10'000;  ///< At most so many, drawn without replacement; 0: all.
  std::uint64_t seed = 0;
  std::int64_t global_batch_size = 512;
  std::int64_t ranks = 8;
  std::int64_t microbatches = 4;  ///< Per rank.
  std::size_t batches = 32;       ///< Global batches that the skew is measured on.
  std::size_t heaviest = 10;
  double gpu_hours = 0;  ///< What a run takes without balancing, all ranks together; 0: not said.
  ProgressSink progress;
  std::stop_token stop;

  /// Errors: kInvalidArgument with field, value and allowed range.
  Status validate() const;
};

/// A sample as the index and the recipe have it, priced.
struct ProfiledSample {
  SampleId id = 0;
  Load load;
  ModuleSeconds seconds{};

  double encoder_s() const;  ///< Vision and audio.
  double llm_s() const { return seconds[static_cast<std::size_t>(Module::kLlm)]; }
  double total_s() const { return encoder_s() + llm_s(); }
};

struct ModalityCount {
  std::uint64_t samples = 0;  ///< That have a part of it.
  std::uint64_t parts = 0;
  std::int64_t encoded_bytes = 0;
};

struct HeavySample {
  std::string shard;
  std::string key;
  std::string parts;  ///< "video + text".
  ProfiledSample sample;
};

/// What global batches of the profiled samples cost, dealt in order and balanced as by a node (see
/// plan_step): means over the batches; deviations are standard deviations over them. A rank's
/// seconds are the sum of its microbatches'.
struct CostSkew {
  struct Policy {
    double microbatch_max_over_mean = 1;
    double microbatch_max_over_mean_deviation = 0;
    std::array<double, kModules> module_max_over_mean{};  ///< Of microbatches; 0: no such work.
    double rank_max_over_mean = 1;
    double rank_max_over_mean_deviation = 0;
    double step_s = 0;  ///< The slowest rank.
    double step_s_deviation = 0;
    std::vector<double> example_rank_s;  ///< Of the first batch, [ranks].
  };
  Policy blind;
  Policy balanced;
  double saved_share = 0;  ///< Of the blind steps' seconds.
  double saved_share_deviation = 0;
};

/// What training takes on all ranks together.
struct GpuHours {
  bool of_run = false;  ///< Of the run that the options name; else of one pass over the data.
  double blind = 0;
  double balanced = 0;

  double saved() const { return blind - balanced; }
};

/// A data set's loads, from its index alone.
struct DataProfile {
  DataProfileOptions options;
  std::string directory;
  std::string profile_source;
  std::uint64_t fingerprint = 0;   ///< The data set's.
  std::uint64_t dataset_size = 0;  ///< Samples that can be used.
  std::uint64_t bad = 0;           ///< Found by indexing.
  std::uint64_t refused = 0;       ///< By the recipe, of those looked at.
  std::string refused_example;     ///< Which and why, of the first one.

  std::vector<ProfiledSample> samples;  ///< In the order of their ids.
  std::array<ModalityCount, 4> modalities;
  /// Pearson's and Spearman's, of encoder and LLM seconds; none where either does not vary.
  std::optional<double> correlation;
  std::optional<double> rank_correlation;
  double heaviest_percent_share =
      0;  ///< Of all seconds, that the most expensive 1 % of samples take.
  std::vector<HeavySample> heaviest;  ///< By seconds, descending.
  CostSkew skew;

  /// None where neither the options name a run's hours nor the profile was measured: the default
  /// one knows proportions only.
  std::optional<GpuHours> gpu_hours() const;
  /// Everything, with the samples' loads: see docs/data_profile.md.
  std::string to_json() const;
};

/// A number that every sample has.
struct SampleQuantity {
  std::string_view name;  ///< As in JSON: "vision_patches".
  std::string_view text;  ///< As people read it, with the unit.
  double (*of)(const ProfiledSample&);
};
/// Loads, bytes and seconds, in the order in which tables show them.
const std::vector<SampleQuantity>& sample_quantities();
std::vector<double> values_of(const DataProfile& profile, const SampleQuantity& quantity);

/// Looks at shapes only: nothing is decoded. Blocks; one thread. Deterministic. Errors: those of
/// validate and Recipe::create; kNotFound for a data set without a sample that the recipe takes;
/// kCancelled.
Result<DataProfile> profile_data(const Dataset& dataset, const std::filesystem::path& directory,
                                 const DataProfileOptions& options);

/// The loads in what DataProfile::to_json wrote. Errors: kCorrupt naming what is missing, mistyped
/// or out of range; kUnsupported for another version.
Result<std::vector<Load>> parse_profiled_loads(std::string_view json);
/// As above, with the file's name; kNotFound, kIo. At most 256 MiB.
Result<std::vector<Load>> load_profiled_loads(const std::filesystem::path& file);

}  // namespace isocost
