#include "costmodel/cost_model.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/internal/correction.h"
#include "costmodel/internal/error_window.h"
#include "costmodel/internal/far_beyond.h"
#include "costmodel/internal/measurement_check.h"
#include "costmodel/internal/state_codec.h"
#include "costmodel/predictor.h"

namespace isocost {
namespace {

// Limit of the error of one prediction, 1000 %: a single error would otherwise dominate the mean.
constexpr double kMostError = 10;
// Most measurements of a step that are learned from at once; a larger step is learned from in
// parts.
constexpr std::uint32_t kLargestStep = 1 << 20;

bool empty(const ModuleLoad& load) { return load.sequences == 0 && load.units == 0; }

// Returns the profile with a cost for the module. If the profile states none, but the module is
// measured, its proportions are those of the built-in profile.
ModuleProfile priced(const ModuleProfile& profile, std::size_t module) {
  constexpr double kNextToNothing = 1e-9;
  if (!(profile.coefficients == ModuleCoefficients{})) return profile;
  ModuleProfile nominal;
  nominal.coefficients = CostProfile::stated_default().modules.at(module).coefficients;
  nominal.coefficients.per_microbatch *= kNextToNothing;
  nominal.coefficients.per_unit *= kNextToNothing;
  nominal.coefficients.per_unit_squared *= kNextToNothing;
  return nominal;
}

// Returns a module's part of a shape. Shapes are in the order of modules.
std::span<const BucketSeconds> part_of(std::span<const BucketSeconds> shape, std::size_t module) {
  const auto is_before = [module](const BucketSeconds& part) {
    return static_cast<std::size_t>(part.module) < module;
  };
  std::size_t first = 0;
  while (first < shape.size() && is_before(shape[first])) ++first;
  std::size_t end = first;
  while (end < shape.size() && static_cast<std::size_t>(shape[end].module) == module) ++end;
  return shape.subspan(first, end - first);
}

// Seconds of a module in a microbatch: by the profile, and with the learned factors.
struct Price {
  double profile_s = 0;
  double corrected_s = 0;
};

// Returns whether a microbatch took as long as its launches. Its seconds decide, since the load's
// seconds are what is being learned, unless they are expected to be far below.
bool took_launches(double seconds, double launches_s, double of_load_s) {
  constexpr double kHardlyAbove = 1.15;
  constexpr double kFarBelow = 0.5;
  return seconds <= kHardlyAbove * launches_s || of_load_s < kFarBelow * launches_s;
}

double seconds_of(const Measurement& measurement) {
  double sum = 0;
  for (const double seconds : measurement.seconds) sum += std::max(seconds, 0.0);
  return sum;
}

}  // namespace

struct CostModel::State {
  State(CostProfile its_profile, const Options& wanted)
      : profile(std::move(its_profile)),
        options(wanted),
        prices{priced(profile.modules[0], 0), priced(profile.modules[1], 1),
               priced(profile.modules[2], 2)},
        predictors{ModulePredictor(prices[0]), ModulePredictor(prices[1]),
                   ModulePredictor(prices[2])},
        correction({predictors[0].coefficients(), predictors[1].coefficients(),
                    predictors[2].coefficients()},
                   wanted.correction) {}

  // Appends the shares of the seconds that grow with a module's load in a microbatch, in ascending
  // order of factors. `shape` is the module's part. Returns the profile's seconds, launches left
  // out.
  double shares_of(std::size_t module, const ModuleLoad& load, std::span<const BucketSeconds> shape,
                   std::vector<Share>& shares) const {
    const ModulePredictor& predictor = predictors[module];
    double sum = 0;
    for (const BucketSeconds& part : shape) sum += part.seconds;
    // If the shape is known, sequences of different lengths are priced separately.
    const double samples = sum > 0 ? sum : predictor.sample(load);
    const double of_load = predictor.of_samples(load, samples);
    const double seconds = predictor.coefficients().per_microbatch + of_load;
    if (!(seconds > 0)) return 0;
    const double fixed = 1 - of_load / seconds;
    if (fixed > 0) shares.push_back({kFixed, static_cast<float>(fixed)});
    if (sum > 0) {
      const double scale = (1 - fixed) / sum;
      for (const BucketSeconds& part : shape) {
        shares.push_back({static_cast<std::uint32_t>(factor_of_bucket(part.bucket)),
                          static_cast<float>(scale * part.seconds)});
      }
    } else {
      shares.push_back({static_cast<std::uint32_t>(factor_of_bucket(shape_bucket(load))),
                        static_cast<float>(1 - fixed)});
    }
    return seconds;
  }

  // Returns a module's seconds in a microbatch that grow with its load, and appends their shares.
  Price price_of_load(std::size_t module, const ModuleLoad& load,
                      std::span<const BucketSeconds> shape, std::vector<Share>& shares) const {
    const std::size_t first = shares.size();
    const FactorVector& factors = correction.factors(module);
    Price price{.profile_s = shares_of(module, load, shape, shares)};
    for (std::size_t i = first; i < shares.size(); ++i) {
      price.corrected_s += shares[i].share * factors[shares[i].factor];
    }
    price.corrected_s *= price.profile_s;
    return price;
  }

  // Returns the seconds that a module's microbatch takes at least. They have the fixed factor.
  Price price_of_launches(std::size_t module) const {
    const double launches = predictors[module].launches();
    return {.profile_s = launches, .corrected_s = launches * correction.factors(module)[kFixed]};
  }

  double slowdown_of(std::int32_t rank) const {
    const auto slowdowns = correction.rank_slowdowns();
    const auto at = static_cast<std::size_t>(rank);
    return at < slowdowns.size() ? slowdowns[at] : 1;
  }

  // Returns an error for a measurement with a time that does not count: see FarBeyond.
  Status check_plausible(const Measurement& measurement) {
    Status result;
    std::vector<Share> shares;
    for (std::size_t i = 0; i < kModules; ++i) {
      const ModuleLoad& load = measurement.load.modules.at(i);
      const double seconds = measurement.seconds.at(i);
      if (!(seconds > 0) || empty(load)) continue;
      shares.clear();
      const Price of_load = price_of_load(i, load, part_of(measurement.shape, i), shares);
      const Price launches = price_of_launches(i);
      const double profile_s = std::max(of_load.profile_s, launches.profile_s);
      if (!(profile_s > 0)) continue;
      const double predicted_s =
          slowdown_of(measurement.rank) * std::max(of_load.corrected_s, launches.corrected_s);
      const bool is_stated = !(profile.modules.at(i).coefficients == ModuleCoefficients{});
      const double expected_s =
          beyond[i].take(measurement.rank, seconds, is_stated ? predicted_s : 0, profile_s);
      if (!(expected_s > 0)) continue;
      std::ostringstream text;
      text << "measurement: " << seconds << " s of " << module_name(static_cast<CostModule>(i))
           << " are over " << kFarBeyond << " times the expected " << expected_s
           << " s; a time like it counts if the next one is like it, too";
      result = Error(ErrorCode::kInvalidArgument, text.str());
    }
    return result;
  }

  void note(std::size_t module, const Measurement& measurement) {
    const ModuleLoad& load = measurement.load.modules.at(module);
    const double seconds = measurement.seconds.at(module);
    if (!(seconds > 0) || empty(load)) return;
    Rows& rows = open.modules.at(module);
    Row row;
    row.rank = measurement.rank;
    row.microbatch = open.microbatches;
    row.first = static_cast<std::uint32_t>(rows.shares.size());
    Price price = price_of_load(module, load, part_of(measurement.shape, module), rows.shares);
    const Price launches = price_of_launches(module);
    const double slowdown = slowdown_of(measurement.rank);
    if (took_launches(seconds / slowdown, launches.corrected_s, price.corrected_s)) {
      rows.shares.resize(row.first);
      rows.shares.push_back({kFixed, 1});
      price = launches;
    }
    row.profile_s = price.profile_s;
    if (!(row.profile_s > 0)) return;
    row.count = static_cast<std::uint32_t>(rows.shares.size()) - row.first;
    row.ratio = seconds / row.profile_s;
    row.learned = correction.module(module).learned_ratio(rows.of(row));
    row.load = load;
    const double predicted = std::max(price.corrected_s, launches.corrected_s) * slowdown;
    errors.at(module).add(std::min(kMostError, std::abs(predicted - seconds) / seconds));
    rows.rows.push_back(row);
  }

  void close_step() {
    if (open.microbatches == 0) return;
    if (options.correct) correction.take(open, own_seconds);
    last_microbatches = open.microbatches;
    open.clear();
    own_seconds = 0;
  }

  CostProfile profile;
  Options options;
  std::array<ModuleProfile, kModules> prices;
  std::array<ModulePredictor, kModules> predictors;
  Correction correction;
  MeasuredStep open;  // measurements of the latest step
  std::uint32_t last_microbatches = 0;
  double own_seconds = 0;
  std::array<ErrorWindow, kModules> errors;
  ForwardShare forward;
  std::array<FarBeyond, kModules> beyond;
  std::int64_t measurements = 0;
  std::int64_t rejected = 0;
};

CostModel::CostModel(CostProfile profile, const Options& options)
    : state_(std::make_unique<State>(std::move(profile), options)) {}
CostModel::~CostModel() = default;
CostModel::CostModel(CostModel&& other) noexcept = default;
CostModel& CostModel::operator=(CostModel&& other) noexcept = default;

ModuleSeconds CostModel::predict_sample(const Load& load) const {
  ModuleSeconds seconds{};
  for (std::size_t i = 0; i < kModules; ++i) {
    const ModuleLoad& its = load.modules.at(i);
    if (empty(its)) continue;
    seconds.at(i) = state_->predictors[i].sample(its) *
                    state_->correction.factors(i)[factor_of_bucket(shape_bucket(its))];
  }
  return seconds;
}

ModuleSeconds CostModel::predict_microbatch(const Load& load,
                                            std::span<const BucketSeconds> shape) const {
  ModuleSeconds seconds{};
  std::vector<Share> shares;
  for (std::size_t i = 0; i < kModules; ++i) {
    if (empty(load.modules.at(i))) continue;
    shares.clear();
    seconds.at(i) = std::max(
        state_->price_of_load(i, load.modules.at(i), part_of(shape, i), shares).corrected_s,
        state_->price_of_launches(i).corrected_s);
  }
  return seconds;
}

MicrobatchShape CostModel::shape_of(std::span<const Load> samples) const {
  MicrobatchShape shape;
  for (std::size_t i = 0; i < kModules; ++i) {
    std::array<double, kShapeBuckets> seconds{};
    for (const Load& sample : samples) {
      const ModuleLoad& its = sample.modules.at(i);
      if (!empty(its)) seconds.at(shape_bucket(its)) += state_->predictors[i].sample(its);
    }
    for (std::size_t b = 0; b < kShapeBuckets; ++b) {
      if (!(seconds.at(b) > 0)) continue;
      shape.push_back({static_cast<CostModule>(i), static_cast<std::uint8_t>(b),
                       static_cast<float>(seconds.at(b))});
    }
  }
  return shape;
}

std::vector<Load> CostModel::as_run(std::span<const Load> samples) const {
  std::vector<Load> run(samples.begin(), samples.end());
  for (std::size_t i = 0; i < kModules; ++i) {
    if (!state_->options.padded.at(i)) continue;
    std::int64_t length = 0;
    for (const Load& sample : run) {
      length = std::max(length, padded_length(static_cast<CostModule>(i), sample.modules.at(i)));
    }
    for (Load& sample : run) {
      ModuleLoad& load = sample.modules.at(i);
      load.units = load.sequences * length;
      load.units_squared = load.units * length;
    }
  }
  return run;
}

std::int64_t CostModel::padded_length(CostModule module, const ModuleLoad& load) const {
  const auto length = static_cast<std::int64_t>(std::ceil(typical_length(load)));
  const std::int64_t multiple = module == CostModule::kLlm ? state_->options.padded_multiple : 1;
  return (length + multiple - 1) / multiple * multiple;
}

bool CostModel::is_padded(CostModule module) const {
  return state_->options.padded.at(static_cast<std::size_t>(module));
}

std::span<const double> CostModel::rank_slowdowns() const {
  return state_->correction.rank_slowdowns();
}

Status CostModel::observe(const Measurement& measurement) {
  Status checked = check_measurement(measurement);
  if (checked) checked = state_->check_plausible(measurement);
  if (!checked) {
    ++state_->rejected;
    return checked;
  }
  State& state = *state_;
  // One call in 16 is timed, and its time counts 16-fold.
  constexpr std::int64_t kTimed = 16;
  const auto& clock = state.options.correction.clock;
  const bool timed = clock && state.measurements % kTimed == 0;
  const std::int64_t started = timed ? clock() : 0;
  if (measurement.step > state.open.step || state.open.microbatches >= kLargestStep) {
    state.close_step();
    state.open.step = measurement.step;
  }
  ++state.measurements;
  if (measurement.forward_share >= 0 && state.options.correct) {
    state.forward.add(measurement.forward_share, seconds_of(measurement));
  }
  for (std::size_t i = 0; i < kModules; ++i) state.note(i, measurement);
  ++state.open.microbatches;
  state.open.add_measuring(measurement.rank, measurement.measuring_s);
  if (timed) state.own_seconds += kTimed * 1e-9 * static_cast<double>(clock() - started);
  return {};
}

void CostModel::update() {
  if (state_->open.microbatches >= std::max(state_->last_microbatches, 1U)) state_->close_step();
}

void CostModel::pass(std::uint64_t complete) {
  if (state_->open.step < complete) state_->close_step();
}

// Without correction, seconds are for display only.
std::int64_t CostModel::measuring_stride() const {
  return state_->options.correct ? state_->correction.measuring_stride() : kLeastStride;
}

void CostModel::begin_job() {
  State& state = *state_;
  if (state.open.microbatches > 0) state.close_step();
  state.open.step = 0;
  state.last_microbatches = 0;
  state.correction.forget_ranks();
  for (FarBeyond& module : state.beyond) module.forget();
}

CorrectionStatus CostModel::correction() const {
  CorrectionStatus status = state_->correction.status();
  status.measuring_stride = measuring_stride();
  return status;
}

std::string CostModel::save_state() const {
  return encode_state({state_->correction.save(), state_->forward}, state_->profile);
}

Status CostModel::restore_state(std::string_view state) {
  ISOCOST_ASSIGN(const SavedModel saved, decode_state(state, state_->profile));
  state_->correction.restore(saved.correction);
  state_->forward = saved.forward;
  return {};
}

double CostModel::forward_share() const { return state_->forward.value(); }

bool CostModel::forward_measured() const { return state_->forward.measured(); }

const CostProfile& CostModel::profile() const { return state_->profile; }

ModuleSeconds CostModel::prediction_error_ratio() const {
  ModuleSeconds errors{};
  for (std::size_t i = 0; i < kModules; ++i) errors.at(i) = state_->errors.at(i).mean();
  return errors;
}

std::int64_t CostModel::measurements() const { return state_->measurements; }
std::int64_t CostModel::rejected() const { return state_->rejected; }

}  // namespace isocost
