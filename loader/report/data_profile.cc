#include "loader/report/data_profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <utility>

#include "base/counted.h"
#include "base/random.h"
#include "base/range.h"
#include "base/statistics.h"
#include "base/utf8.h"
#include "loader/dataset/bad_samples.h"
#include "loader/dataset/sample_name.h"
#include "loader/dataset/source_number.h"
#include "loader/plan/permutation.h"
#include "loader/plan/plan_options.h"
#include "loader/plan/planner.h"

namespace isocost {
namespace {

constexpr std::uint64_t kProgressEvery = 1024;

Status check_hours(double hours) {
  constexpr double kMost = 1e12;
  if (hours >= 0 && hours <= kMost) return {};  // false for NaN
  std::ostringstream text;
  text << "gpu_hours = " << hours << ": allowed are 0 to 1e12";
  return Error(ErrorCode::kInvalidArgument, text.str());
}

template <CostModule kModule>
double units(const ProfiledSample& sample) {
  return static_cast<double>(sample.load[kModule].units);
}

std::string describe_parts(const SampleShape& shape) {
  std::array<std::size_t, 4> counts{};
  for (const PartShape& part : shape.parts) ++counts.at(static_cast<std::size_t>(part.modality));
  std::string text;
  for (std::size_t m = 0; m < counts.size(); ++m) {
    if (counts.at(m) == 0) continue;
    if (!text.empty()) text += " + ";
    if (counts.at(m) > 1) text += std::to_string(counts.at(m)) + " ";
    text += modality_name(static_cast<Modality>(m));
  }
  return text;
}

Error cancelled() { return {ErrorCode::kCancelled, "profiling was cancelled"}; }

class Profiler {
 public:
  Profiler(const Dataset& dataset, const Recipe& recipe, DataProfile& profile)
      : dataset_(dataset),
        recipe_(recipe),
        model_(profile.options.model_profile, {.correct = false}),
        profile_(profile) {}

  Status run() {
    ISOCOST_TRY(profile_samples());
    const std::string fault = first_fault(dataset_);
    if (dataset_.size() == 0 && !fault.empty()) {
      return Error(ErrorCode::kCorrupt,
                   profile_.directory + " holds no usable sample (" + fault +
                       "): `isocost check` with the same options lists the reasons");
    }
    if (profile_.samples.empty()) {
      return Error(ErrorCode::kNotFound,
                   profile_.directory + " holds no sample that the recipe accepts" +
                       (profile_.refused > 0 ? " (" + profile_.refused_example + ")" : ""));
    }
    sum_sources();
    correlate();
    find_most_expensive();
    return measure_skew();
  }

 private:
  std::vector<SampleId> choose() const {
    const std::uint64_t size = dataset_.size();
    const std::uint64_t wanted = profile_.options.samples;
    const std::uint64_t count = wanted == 0 ? size : std::min(wanted, size);
    std::vector<SampleId> ids(count);
    if (count == size) {
      std::iota(ids.begin(), ids.end(), SampleId{0});
      return ids;
    }
    const Permutation order(profile_.options.seed, 0, size);
    for (std::uint64_t i = 0; i < count; ++i) ids[i] = order.at(i);
    std::sort(ids.begin(), ids.end());
    return ids;
  }

  Status profile_samples() {
    const std::vector<SampleId> ids = choose();
    profile_.samples.reserve(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (profile_.options.stop.stop_requested()) return cancelled();
      ISOCOST_TRY(profile_sample(ids[i]));
      if ((i + 1) % kProgressEvery == 0 || i + 1 == ids.size()) {
        tell(i + 1, ids.size(), "profiling samples");
      }
    }
    return {};
  }

  Status profile_sample(SampleId id) {
    ISOCOST_ASSIGN(const SampleShape shape, dataset_.checked_shape(id));
    const auto load = recipe_.load(shape);
    if (!load) {
      if (profile_.refused++ == 0) {
        profile_.refused_example =
            sample_name(dataset_.shard(id), dataset_.key(id)) + ": " + load.error().message();
      }
      return {};
    }
    profile_.samples.push_back({id, *load, model_.predict_sample(*load)});
    std::array<bool, 4> present{};
    for (const PartShape& part : shape.parts) {
      const auto m = static_cast<std::size_t>(part.modality);
      ModalityCount& count = profile_.modalities.at(m);
      count.parts += 1;
      count.encoded_bytes += part.encoded_bytes;
      if (!std::exchange(present.at(m), true)) count.samples += 1;
    }
    return {};
  }

  void sum_sources() {
    if (dataset_.sources().front().name.empty()) return;
    for (const DatasetSource& source : dataset_.sources()) {
      profile_.sources.push_back({.name = source.name, .size = source.size});
    }
    for (const ProfiledSample& sample : profile_.samples) {
      ProfiledSource& source = profile_.sources[source_number(dataset_, sample.id)];
      source.profiled += 1;
      source.tokens += sample.load[CostModule::kLlm].units;
      source.label_tokens += sample.load.label_tokens;
      source.seconds += sample.total_s();
    }
  }

  void correlate() {
    std::vector<double> encoder;
    std::vector<double> llm;
    std::vector<double> total;
    for (const ProfiledSample& sample : profile_.samples) {
      encoder.push_back(sample.encoder_s());
      llm.push_back(sample.llm_s());
      total.push_back(sample.total_s());
    }
    profile_.correlation = correlation(encoder, llm);
    profile_.rank_correlation = rank_correlation(encoder, llm);
    profile_.most_expensive_percent_share = share_of_largest(std::move(total), 0.01);
  }

  void find_most_expensive() {
    std::vector<ProfiledSample> order = profile_.samples;
    const auto count = static_cast<std::ptrdiff_t>(
        std::min<std::int64_t>(profile_.options.most_expensive, std::ssize(order)));
    std::partial_sort(order.begin(), order.begin() + count, order.end(),
                      [](const ProfiledSample& a, const ProfiledSample& b) {
                        return std::pair(b.total_s(), a.id) < std::pair(a.total_s(), b.id);
                      });
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      const ProfiledSample& sample = order[static_cast<std::size_t>(i)];
      profile_.most_expensive.push_back({std::string(dataset_.shard(sample.id)),
                                         printable_utf8(dataset_.key(sample.id)),
                                         describe_parts(dataset_.shape(sample.id)), sample});
    }
  }

  // Draws a global batch with replacement, so that a small data set has batches, too.
  PlanInput draw(Random& random) const {
    PlanInput input;
    for (std::int64_t i = 0; i < profile_.options.global_batch_size; ++i) {
      const ProfiledSample& sample = profile_.samples[random.below(profile_.samples.size())];
      input.loads.push_back(sample.load);
      input.weights.push_back(1.0F);
      input.ids.push_back(sample.id);
    }
    return input;
  }

  Status measure_skew() {
    const DataProfileOptions& options = profile_.options;
    PlanOptions plan_options;
    plan_options.ranks = options.ranks;
    plan_options.microbatches = options.microbatches;
    plan_options.global_batch_size = options.global_batch_size;
    Random random(options.seed);
    std::array<Spreads, kBalancePolicyNames.size()> spreads;
    CostSkew& skew = profile_.skew;
    for (std::int64_t i = 0; i < options.batches; ++i) {
      if (options.stop.stop_requested()) return cancelled();
      const PlanInput input = draw(random);
      for (std::size_t p = 0; p < spreads.size(); ++p) {
        plan_options.balance = static_cast<BalancePolicy>(p);
        ISOCOST_TRY(add_batch(input, plan_options, skew.policies.at(p), spreads.at(p)));
      }
      tell(static_cast<std::uint64_t>(i) + 1, static_cast<std::uint64_t>(options.batches),
           "balancing global batches");
    }
    const std::vector<double> in_order_s =
        spreads[static_cast<std::size_t>(BalancePolicy::kInOrder)].step_s;
    for (std::size_t p = 0; p < spreads.size(); ++p) {
      CostSkew::Policy& policy = skew.policies.at(p);
      policy.saved_share_deviation = saved_deviation(in_order_s, spreads.at(p).step_s);
      summarise(std::move(spreads.at(p)), policy);
      const double all_s = skew[BalancePolicy::kInOrder].step_s;
      if (all_s > 0) policy.saved_share = 1 - policy.step_s / all_s;
    }
    return {};
  }

  // Figures of a policy, one per batch.
  struct Spreads {
    std::vector<double> microbatch;
    std::vector<double> rank;
    std::vector<double> step_s;
  };

  // Returns the deviation, over the batches, of the share of in-order seconds that a policy saves.
  static double saved_deviation(const std::vector<double>& in_order_s,
                                const std::vector<double>& step_s) {
    std::vector<double> shares(step_s.size());
    for (std::size_t i = 0; i < shares.size(); ++i) {
      shares[i] = in_order_s[i] > 0 ? 1 - step_s[i] / in_order_s[i] : 0;
    }
    return distribution_of(std::move(shares)).deviation;
  }

  static void summarise(Spreads spreads, CostSkew::Policy& policy) {
    const auto set = [](std::vector<double>& values, double& mean, double& deviation) {
      const Distribution spread = distribution_of(std::move(values));
      mean = spread.mean;
      deviation = spread.deviation;
    };
    set(spreads.microbatch, policy.microbatch_max_over_mean,
        policy.microbatch_max_over_mean_deviation);
    set(spreads.rank, policy.rank_max_over_mean, policy.rank_max_over_mean_deviation);
    set(spreads.step_s, policy.step_s, policy.step_s_deviation);
  }

  // Adds the figures of a batch.
  Status add_batch(const PlanInput& input, const PlanOptions& plan_options,
                   CostSkew::Policy& policy, Spreads& spreads) const {
    ISOCOST_ASSIGN(const StepPlan plan, plan_step(input, model_, plan_options));
    std::vector<double> ranks(static_cast<std::size_t>(plan_options.ranks));
    std::vector<double> microbatches;
    std::array<std::vector<double>, kModules> modules;
    for (std::size_t bin = 0; bin < plan.bins.size(); ++bin) {
      const ModuleSeconds& seconds = plan.bins[bin].predicted;
      for (std::size_t m = 0; m < kModules; ++m) modules.at(m).push_back(seconds.at(m));
      microbatches.push_back(std::accumulate(seconds.begin(), seconds.end(), 0.0));
      ranks[bin / plan.microbatches] += microbatches.back();
    }
    const auto n = static_cast<double>(profile_.options.batches);
    spreads.microbatch.push_back(max_over_mean(microbatches));
    spreads.rank.push_back(max_over_mean(ranks));
    for (std::size_t m = 0; m < kModules; ++m) {
      double& sum = policy.module_max_over_mean.at(m);
      const Distribution spread = distribution_of(modules.at(m));
      if (spread.mean > 0) sum += spread.most / spread.mean / n;
    }
    spreads.step_s.push_back(*std::max_element(ranks.begin(), ranks.end()));
    if (policy.example_rank_s.empty()) policy.example_rank_s = std::move(ranks);
    return {};
  }

  // Returns the largest over the mean value; 1 if there is no work.
  static double max_over_mean(const std::vector<double>& values) {
    const Distribution spread = distribution_of(values);
    return spread.mean > 0 ? spread.most / spread.mean : 1;
  }

  void tell(std::uint64_t done, std::uint64_t total, std::string_view what) const {
    if (profile_.options.progress) profile_.options.progress(done, total, what);
  }

  const Dataset& dataset_;
  const Recipe& recipe_;
  const CostModel model_;
  DataProfile& profile_;
};

}  // namespace

Status DataProfileOptions::validate() const {
  ISOCOST_TRY(check_range("ranks", ranks, 1, 100'000));
  ISOCOST_TRY(check_range("microbatches", microbatches, 1, 100'000));
  ISOCOST_TRY(check_range("global_batch_size", global_batch_size, 1, 1'000'000));
  ISOCOST_TRY(check_range("batches", batches, 1, 100'000));
  ISOCOST_TRY(check_range("most_expensive", most_expensive, 0, 100'000));
  ISOCOST_TRY(check_range("gpus", gpus, 0, 1'000'000));
  ISOCOST_TRY(check_hours(gpu_hours));
  if (global_batch_size < ranks * microbatches) {
    return Error(ErrorCode::kInvalidArgument,
                 "global_batch_size = " + std::to_string(global_batch_size) + ": " +
                     counted(ranks, "rank") + " × " + counted(microbatches, "microbatch") +
                     " need at least " + std::to_string(ranks * microbatches) +
                     ": give a larger one, or fewer microbatches");
  }
  return validate_recipe(recipe);
}

double ProfiledSample::encoder_s() const {
  return seconds[static_cast<std::size_t>(CostModule::kVision)] +
         seconds[static_cast<std::size_t>(CostModule::kAudio)];
}

double ProfiledSource::of_all(double sum) const {
  return profiled == 0 ? 0 : sum * static_cast<double>(size) / static_cast<double>(profiled);
}

namespace {

// The seconds of the built-in model profile compare samples; they are those of no machine.
bool has_stated_seconds(const DataProfile& profile) {
  return profile.model_profile_source == CostProfile::stated_default().source;
}

}  // namespace

Savings DataProfile::savings() const {
  Savings savings{.gpus = options.gpus > 0 ? options.gpus : options.ranks,
                  .price_per_gpu_hour = options.price_per_gpu_hour};
  for (std::size_t p = 0; p < savings.policies.size(); ++p) {
    const CostSkew::Policy& policy = skew.policies.at(p);
    savings.policies.at(p) = {.step_s = policy.step_s,
                              .idle_share = 1 - 1 / policy.rank_max_over_mean};
  }
  return savings;
}

SampleBytes DataProfile::sample_bytes() const {
  const auto count = static_cast<double>(samples.size());
  double encoded = 0;
  double tensors = 0;
  for (const ModalityCount& modality : modalities) {
    encoded += static_cast<double>(modality.encoded_bytes);
  }
  for (const ProfiledSample& sample : samples) {
    tensors += static_cast<double>(sample.load.tensor_bytes);
  }
  return {.encoded = encoded / count, .tensors = tensors / count};
}

std::optional<LoaderNeeds> DataProfile::loader_needs() const {
  if (has_stated_seconds(*this)) return std::nullopt;
  return isocost::loader_needs(sample_bytes(), options.global_batch_size,
                               skew[BalancePolicy::kCost].step_s, options.loader_s_per_sample);
}

std::optional<GpuHours> DataProfile::gpu_hours() const {
  GpuHours hours{.of_run = options.gpu_hours > 0};
  if (!hours.of_run && has_stated_seconds(*this)) return std::nullopt;
  const double steps =
      static_cast<double>(dataset_size) / static_cast<double>(options.global_batch_size);
  const double hours_per_second = steps * static_cast<double>(options.ranks) / 3600;
  for (std::size_t p = 0; p < hours.by_policy.size(); ++p) {
    const CostSkew::Policy& policy = skew.policies.at(p);
    hours.by_policy.at(p) = hours.of_run ? options.gpu_hours * (1 - policy.saved_share)
                                         : hours_per_second * policy.step_s;
  }
  return hours;
}

const std::vector<SampleQuantity>& sample_quantities() {
  static const std::vector<SampleQuantity> the_quantities = {
      {"vision_patches", "vision patches", units<CostModule::kVision>},
      {"audio_positions", "audio positions", units<CostModule::kAudio>},
      {"llm_tokens", "LLM tokens", units<CostModule::kLlm>},
      {"label_tokens", "label tokens",
       [](const ProfiledSample& sample) { return static_cast<double>(sample.load.label_tokens); }},
      {"tensor_bytes", "decoded bytes",
       [](const ProfiledSample& sample) { return static_cast<double>(sample.load.tensor_bytes); }},
      {"encoder_s", "encoder seconds", [](const ProfiledSample& s) { return s.encoder_s(); }},
      {"llm_s", "LLM seconds", [](const ProfiledSample& s) { return s.llm_s(); }},
      {"total_s", "total seconds", [](const ProfiledSample& s) { return s.total_s(); }},
  };
  return the_quantities;
}

std::vector<double> values_of(const DataProfile& profile, const SampleQuantity& quantity) {
  std::vector<double> values;
  values.reserve(profile.samples.size());
  for (const ProfiledSample& sample : profile.samples) values.push_back(quantity.of(sample));
  return values;
}

Result<DataProfile> make_data_profile(const Dataset& dataset,
                                      const std::filesystem::path& directory,
                                      const DataProfileOptions& options) {
  ISOCOST_TRY(options.validate());
  ISOCOST_ASSIGN(const Recipe recipe, Recipe::create(options.recipe));
  DataProfile profile;
  profile.options = options;
  profile.directory = directory.string();
  profile.model_profile_source = options.model_profile.source;
  profile.fingerprint = dataset.fingerprint();
  profile.dataset_size = dataset.size();
  profile.bad = dataset.bad().size();
  ISOCOST_TRY(Profiler(dataset, recipe, profile).run());
  return profile;
}

}  // namespace isocost
