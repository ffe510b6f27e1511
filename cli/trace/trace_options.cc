#include "cli/trace/trace_options.h"

#include <algorithm>
#include <cstdint>

#include "cli/common/number_range.h"
#include "costmodel/profile.h"
#include "loader/dataset/names/data_text.h"
#include "loader/report/data_profile.h"

namespace isocost::cli {
namespace {

constexpr char kSeveral = '\n';              // between the values of a flag that is repeated
constexpr std::int64_t kAudioWindow = 1500;  // positions of 30 s

bool is_priced(const CostProfile& profile, CostModule module) {
  const ModuleProfile& of = profile.modules.at(static_cast<std::size_t>(module));
  return !of.points.empty() || of.coefficients != ModuleCoefficients{};
}

// Counts encoder units as audio positions, in windows of 30 s.
Load heard(const Load& seen) {
  Load load = seen;
  load[CostModule::kVision] = {};
  ModuleLoad& audio = load[CostModule::kAudio];
  for (std::int64_t left = seen[CostModule::kVision].units; left > 0; left -= kAudioWindow) {
    audio.add_sequence(std::min(left, kAudioWindow));
  }
  return load;
}

// A trace does not say what its encoder units are. A model without vision hears them.
Status count_for_model(const std::string& profile, TraceMix& mix) {
  if (profile.empty()) return {};
  ISOCOST_ASSIGN(const CostProfile model, CostProfile::load(profile));
  if (is_priced(model, CostModule::kVision) || !is_priced(model, CostModule::kAudio)) return {};
  for (auto& trace : mix.traces) {
    std::transform(trace.begin(), trace.end(), trace.begin(), heard);
  }
  return {};
}

// Refuses several profiles, which nothing joins.
Status check_one_profile(const std::string& profile) {
  if (profile.find(kSeveral) == std::string::npos) return {};
  const std::string first = profile.substr(0, profile.find(kSeveral));
  const std::string second = profile.substr(profile.rfind(kSeveral) + 1);
  ISOCOST_ASSIGN(const CostProfile a, as_usage_error(CostProfile::load(first)));
  ISOCOST_ASSIGN(const CostProfile b, as_usage_error(CostProfile::load(second)));
  const auto described = [](const CostProfile& of) {
    return of.source + " (" + (of.hardware.empty() ? "unknown hardware" : of.hardware) + ", " +
           (of.dtype.empty() ? "unknown dtype" : of.dtype) + ")";
  };
  const bool alike = a.hardware == b.hardware && a.dtype == b.dtype;
  return Error(ErrorCode::kInvalidArgument,
               "--profile names " + described(a) + " and " + described(b) +
                   (alike ? "; give one" : ", whose seconds do not compare; give one") +
                   ": a run of 'isocost model profile DIR', or of isocost.profile_model, measures "
                   "all modules on one machine in one dtype");
}

double mean_tensor_bytes(const std::vector<Load>& loads) {
  double sum = 0;
  for (const Load& load : loads) sum += static_cast<double>(load.tensor_bytes);
  return sum / static_cast<double>(loads.size());
}

}  // namespace

void TraceOptions::add_to(CLI::App& command) {
  CLI::App* from = command.add_option_group("samples", "Samples, by one of these flags");
  CLI::Option* trace =
      from->add_option("--trace", traces,
                       "Traces: CSV files with the columns encoder_patches and llm_tokens")
          ->type_name("FILE[,FILE...]");
  from->add_option("--data-profile", data_profile,
                   "Data profile: JSON that 'isocost data profile --json' printed")
      ->type_name("FILE");
  CLI::Option* of_data =
      from->add_option("--data", data.words, "Data set, profiled first: " + std::string(kDataHelp))
          ->type_name("DATA");
  from->require_option(1);
  command
      .add_option("--weights", weights,
                  "Relative frequency with which each trace is drawn; default: equal")
      ->type_name("W[,W...]")
      ->needs(trace);
  command
      .add_option("--profile", profile,
                  "Model profile; default: the built-in one, estimated for SigLIP-so400m and "
                  "Qwen2.5-7B on an A100")
      ->type_name("FILE")
      ->multi_option_policy(CLI::MultiOptionPolicy::Join);
  CLI::App* of_sets = command.add_option_group("data set", "How --data is read");
  of_sets->needs(of_data);
  add_count(*of_sets, "--samples", samples, 0, 1'000'000'000,
            "Samples to profile, drawn at random; 0: all");
  profiled.add_to(*of_sets);
}

Result<JobModel> TraceOptions::job() const {
  ISOCOST_TRY(check_one_profile(profile));
  return as_usage_error(JobModel::load(profile));
}

Result<TraceMix> TraceOptions::read_data(const std::stop_token& stop, bool measure_decoding) const {
  DataProfileOptions options;
  options.samples = samples;
  options.stop = stop;
  if (!profile.empty()) {
    ISOCOST_ASSIGN(options.model_profile, as_usage_error(CostProfile::load(profile)));
  }
  ISOCOST_ASSIGN(const DataProfile of_data, profiled.profile(data, options, measure_decoding));
  TraceMix mix{.traces = std::vector<std::vector<Load>>(1),
               .weights = {1},
               .bytes = of_data.sample_bytes(),
               .loader_s_per_sample = of_data.options.loader_s_per_sample};
  mix.traces.front().reserve(of_data.samples.size());
  for (const ProfiledSample& sample : of_data.samples) {
    mix.traces.front().push_back(sample.load);
  }
  return mix;
}

Result<TraceMix> TraceOptions::read(const std::stop_token& stop, bool measure_decoding) const {
  TraceMix mix;
  if (!data.words.empty()) return read_data(stop, measure_decoding);
  if (data_profile.empty()) {
    ISOCOST_ASSIGN(mix, as_usage_error(read_traces(traces, weights)));
    ISOCOST_TRY(as_usage_error(count_for_model(profile, mix)));
    return mix;
  }
  ISOCOST_ASSIGN(mix.traces.emplace_back(), as_usage_error(load_profiled_loads(data_profile)));
  mix.weights = {1};
  mix.bytes = SampleBytes{.tensors = mean_tensor_bytes(mix.traces.front())};
  return mix;
}

}  // namespace isocost::cli
