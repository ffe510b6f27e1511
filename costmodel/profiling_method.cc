// docs/profiling_method.md describes the method.

#include "costmodel/profiling_method.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "base/counted.h"
#include "base/statistics.h"

namespace isocost {
namespace {

constexpr int kFirstLengths = 5;
constexpr double kTargetSpread = 0.03;  // half of the median's 95 % interval
constexpr std::size_t kLeastRuns = 7;   // with fewer, the interval of a median is the whole range
constexpr std::size_t kFewestRuns = 3;  // after the load's part of the budget is spent
constexpr std::size_t kMostRuns = 200;
constexpr int kMostUnusable = 3;    // for one load; with more, the clock is broken
constexpr double kGridShare = 0.5;  // factor on a load's even part of what is left of the budget
// A device that waits for its host takes this much longer at most for a load that is this much
// larger; one that does not wait takes longer by far.
constexpr double kHardlyLonger = 2;
constexpr std::int64_t kFarMoreUnits = 4;
constexpr double kBendShare = 0.25;        // share of what is left of the budget, for each load
constexpr double kLeastBend = 0.01;        // interpolation error that is not worth another point
constexpr double kClosest = 0.1823215568;  // log 1.2: lengths nearer than this are the same
constexpr double kCutShare = 0.1;          // share of the budget, for each cut
constexpr double kMostForCuts = 0.5;       // share of the budget
// Limit of squared units, so that they stay exact and within the range of a profile file.
constexpr std::int64_t kMostSquares = std::int64_t{1} << 49;

Error invalid(const ProfilingOptions& options, const std::string& what) {
  return {ErrorCode::kInvalidArgument, options.module + ": " + what};
}

std::string cut_text(const ProfilingCut& cut) {
  return "tensor = " + std::to_string(cut.tensor) +
         ", layers = " + (cut.layers ? std::to_string(*cut.layers) : "all");
}

Status validate_cuts(const ProfilingOptions& options) {
  std::set<std::pair<std::int64_t, std::optional<std::int64_t>>> seen;
  for (const ProfilingCut& cut : options.cuts) {
    if (cut.tensor < 1 || (cut.tensor == 1 && !cut.layers)) {
      return invalid(options, "a cut has " + cut_text(cut) +
                                  "; give more than one tensor rank, or fewer layers");
    }
    if (cut.layers && (*cut.layers < 1 || *cut.layers >= options.layers)) {
      return invalid(options, "a cut has " + cut_text(cut) +
                                  "; give the module's architecture, and fewer layers than it has");
    }
    if (!seen.emplace(cut.tensor, cut.layers).second) {
      return invalid(options, "two cuts have " + cut_text(cut));
    }
  }
  return {};
}

// Returns half of the median's 95 % interval by order statistics, relative to the median.
double relative_spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  const double reach = 1.96 * std::sqrt(n) / 2;
  const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(n / 2 - reach)));
  const auto high = static_cast<std::size_t>(std::min(n - 1, std::ceil(n / 2 + reach)));
  const double range = values[high] - values[low];
  const double middle = median(values);
  return middle > 0 ? range / 2 / middle : 0;
}

bool is_contradicted(const ProfilePoint& point, const std::vector<ProfilePoint>& points) {
  return std::any_of(points.begin(), points.end(),
                     [&point](const ProfilePoint& other) { return contradicts(point, other); });
}

std::int64_t length_of(const ModuleLoad& load) { return load.units / load.sequences; }

void sort(std::vector<ProfilePoint>& points) {
  std::sort(points.begin(), points.end(), [](const ProfilePoint& a, const ProfilePoint& b) {
    return std::pair(length_of(a.load), a.load.sequences) <
           std::pair(length_of(b.load), b.load.sequences);
  });
}

std::string measured_text(const ProfilePoint& point) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.3g ms ± %.1f %%", 1e3 * point.seconds(),
                100 * point.spread);
  return text.data();
}

}  // namespace

Status ProfilingOptions::validate() const {
  if (shortest < 1 || longest < shortest) {
    return invalid(*this, "lengths are (" + std::to_string(shortest) + ", " +
                              std::to_string(longest) +
                              "); give (shortest, longest), the shortest at least 1");
  }
  if (multiple < 1) {
    return invalid(*this, "multiple is " + std::to_string(multiple) + "; it must be at least 1");
  }
  if (multiple > longest) {
    return invalid(*this, "multiple is " + std::to_string(multiple) + "; no length up to " +
                              std::to_string(longest) + " is a multiple of it");
  }
  if (most_units < longest) {
    return invalid(*this, "most_units is " + std::to_string(most_units) +
                              ", below the longest sequence, " + std::to_string(longest));
  }
  if (most_units > kMostSquares / longest) {
    return invalid(*this, "most_units is " + std::to_string(most_units) + " and the longest " +
                              "sequence " + std::to_string(longest) +
                              "; their product must be at most 2^49");
  }
  if (!(budget.count() > 0) || !std::isfinite(budget.count())) {
    return invalid(*this, "the budget is " + std::to_string(budget.count()) +
                              " s; it must be above 0 and finite");
  }
  return validate_cuts(*this);
}

ModuleLoad ProfilingMethod::Microbatch::load() const {
  return {.sequences = sequences,
          .units = length * sequences,
          .units_squared = length * length * sequences};
}

Result<ProfilingMethod> ProfilingMethod::create(ProfilingOptions options) {
  ISOCOST_TRY(options.validate());
  ProfilingMethod method(std::move(options));
  if (method.next()) return method;
  return invalid(method.options_,
                 "no length fits into most_units = " + std::to_string(method.options_.most_units));
}

ProfilingMethod::ProfilingMethod(ProfilingOptions options)
    : options_(std::move(options)),
      for_cuts_s_(options_.budget.count() *
                  std::min(kMostForCuts, kCutShare * static_cast<double>(options_.cuts.size()))) {
  const std::vector<Microbatch> grid = first_grid();
  waiting_.assign(grid.begin(), grid.end());
  if (waiting_.empty()) stage_ = Stage::kDone;
  advance();
}

std::optional<ProfilingRun> ProfilingMethod::next() const {
  if (!current_) return std::nullopt;
  ProfilingRun run{.kind = current_->due,
                   .length = current_->microbatch.length,
                   .sequences = current_->microbatch.sequences,
                   .new_inputs = current_->due == ProfilingRunKind::kWarmUp};
  if (stage_ == Stage::kCuts) run.cut = cuts_.size() - 1;
  return run;
}

Status ProfilingMethod::record(const ProfilingResult& result) {
  if (!current_) return invalid(options_, "no run is due");
  elapsed_s_ = std::max(elapsed_s_, result.elapsed.count());
  switch (current_->due) {
    case ProfilingRunKind::kWarmUp:
      current_->due = ProfilingRunKind::kPeakMemory;
      return {};
    case ProfilingRunKind::kPeakMemory:
      current_->peak_bytes = std::max<std::int64_t>(0, result.peak_bytes);
      current_->due = ProfilingRunKind::kTimed;
      return {};
    case ProfilingRunKind::kTimed:
      return record_seconds(*current_, result);
  }
  return {};
}

Status ProfilingMethod::record_seconds(Measurement& measured, const ProfilingResult& result) {
  const double forward_s = result.forward.count();
  const double backward_s = result.backward.count();
  const double total_s = forward_s + backward_s;
  if (!(forward_s >= 0 && backward_s >= 0 && total_s > 0) || !std::isfinite(total_s)) {
    if (++measured.unusable <= kMostUnusable) return {};
    return fail(invalid(options_, "the clock runs backwards or stands still"));
  }
  measured.forward_s.push_back(forward_s);
  measured.backward_s.push_back(backward_s);
  measured.total_s.push_back(total_s);
  if (!is_settled(measured)) return {};
  finish(measured);
  advance();
  return {};
}

bool ProfilingMethod::is_settled(const Measurement& measured) const {
  const std::size_t runs = measured.total_s.size();
  if (runs < kFewestRuns) return false;
  if (runs >= kMostRuns || elapsed_s_ >= measured.end_s) return true;
  return runs >= kLeastRuns && relative_spread(measured.total_s) <= kTargetSpread;
}

void ProfilingMethod::finish(Measurement& measured) {
  const ProfilePoint point{.load = measured.microbatch.load(),
                           .forward_s = median(measured.forward_s),
                           .backward_s = median(measured.backward_s),
                           .spread = relative_spread(measured.total_s),
                           .peak_bytes = measured.peak_bytes};
  say(measured.microbatch, measured_text(point));
  (stage_ == Stage::kCuts ? cuts_.back().points : points_).push_back(point);
  current_.reset();
}

Status ProfilingMethod::record_out_of_memory(Seconds elapsed) {
  if (!current_) return invalid(options_, "no run is due");
  elapsed_s_ = std::max(elapsed_s_, elapsed.count());
  const Microbatch microbatch = current_->microbatch;
  if (points_.empty()) {
    return fail(Error(ErrorCode::kResourceExhausted,
                      options_.module + ": out of memory at its smallest load, " +
                          std::to_string(microbatch.sequences) + " x " +
                          std::to_string(microbatch.length) +
                          "; give shorter lengths or free the device"));
  }
  say(microbatch, "out of memory");
  const ModuleLoad load = microbatch.load();
  if (stage_ != Stage::kCuts && (out_of_memory_.units == 0 || load.units < out_of_memory_.units)) {
    out_of_memory_ = load;
  }
  current_.reset();
  advance();
  return {};
}

std::vector<std::string> ProfilingMethod::take_progress() { return std::exchange(progress_, {}); }

// Returns the loads of the first grid. Small loads come first, so that the boundary of memory is
// known early.
std::vector<ProfilingMethod::Microbatch> ProfilingMethod::first_grid() const {
  std::set<std::pair<std::int64_t, std::int64_t>> loads;  // units, length
  const auto shortest = static_cast<double>(options_.shortest);
  const double range = static_cast<double>(options_.longest) / shortest;
  for (int i = 0; i < kFirstLengths; ++i) {
    const std::int64_t length =
        rounded(shortest * std::pow(range, static_cast<double>(i) / (kFirstLengths - 1)));
    const std::int64_t fit = options_.most_units / length;
    if (fit == 0) continue;
    const auto between = static_cast<std::int64_t>(std::llround(std::sqrt(fit)));
    for (const std::int64_t sequences : {std::int64_t{1}, between, fit}) {
      loads.emplace(length * sequences, length);
    }
  }
  std::vector<Microbatch> grid;
  grid.reserve(loads.size());
  for (const auto& [units, length] : loads) {
    grid.push_back({.length = length, .sequences = units / length});
  }
  return grid;
}

std::int64_t ProfilingMethod::rounded(double length) const {
  const auto multiple = static_cast<double>(options_.multiple);
  return std::max(options_.multiple,
                  static_cast<std::int64_t>(std::llround(length / multiple)) * options_.multiple);
}

// Begins with the next load; goes to a later stage if the present one has none left.
void ProfilingMethod::advance() {
  while (!current_ && stage_ != Stage::kDone) {
    if (waiting_.empty()) {
      next_stage();
      continue;
    }
    const double share = share_s();
    const Microbatch microbatch = waiting_.front();
    waiting_.pop_front();
    if (stage_ != Stage::kCuts && is_beyond_memory(microbatch)) continue;
    current_ = Measurement{};
    current_->microbatch = microbatch;
    current_->end_s = elapsed_s_ + share;
  }
}

void ProfilingMethod::next_stage() {
  switch (stage_) {
    case Stage::kGrid:
      stage_ = Stage::kHalves;
      queue_halves();
      return;
    case Stage::kHalves:
    case Stage::kBends:
      stage_ = Stage::kBends;
      if (queue_bend()) return;
      stage_ = Stage::kContradictions;
      queue_contradicted();
      return;
    case Stage::kContradictions: {
      for (const ProfilePoint& point : points_) {
        if (!is_contradicted(point, points_)) continue;
        say({length_of(point.load), point.load.sequences}, "slower than a larger load, left out");
      }
      std::erase_if(points_, [points = points_](const ProfilePoint& point) {
        return is_contradicted(point, points);
      });
      // If a load that is no smaller has run since, running out of memory did not mark a boundary.
      const bool ran = std::any_of(points_.begin(), points_.end(), [this](const auto& point) {
        return point.load.units >= out_of_memory_.units &&
               point.load.units_squared >= out_of_memory_.units_squared;
      });
      if (ran) out_of_memory_ = {};
      sort(points_);
      stage_ = Stage::kCuts;
      next_cut();
      return;
    }
    case Stage::kCuts:
      next_cut();
      return;
    case Stage::kDone:
      return;
  }
}

// Begins the next cut. It runs with the largest load of each length of the first grid, as far as
// the whole module was measured with it.
void ProfilingMethod::next_cut() {
  if (!cuts_.empty()) {
    std::vector<ProfilePoint>& measured = cuts_.back().points;
    std::erase_if(measured, [points = measured](const ProfilePoint& point) {
      return is_contradicted(point, points);
    });
    sort(measured);
  }
  if (cuts_.size() == options_.cuts.size()) {
    stage_ = Stage::kDone;
    return;
  }
  const ProfilingCut& cut = options_.cuts[cuts_.size()];
  cuts_.push_back({.tensor = cut.tensor, .layers = cut.layers.value_or(0), .points = {}});
  std::map<std::int64_t, Microbatch> largest;  // by length; the grid is ascending
  for (const Microbatch& microbatch : first_grid()) largest[microbatch.length] = microbatch;
  for (const auto& [length, microbatch] : largest) {
    if (has(microbatch.load())) waiting_.push_back(microbatch);
  }
  // Only measured lengths have a share of the cut's budget. The libtorch driver gave every length
  // of the grid a share, and left those of unmeasured lengths unused.
  const auto loads = static_cast<double>(std::max<std::size_t>(1, waiting_.size()));
  cut_load_share_s_ = for_cuts_s_ / static_cast<double>(options_.cuts.size()) / loads;
}

// Queues half of a length's largest load where the device waits for its host in the load before:
// else nothing would say how its seconds grow between its launches and the largest load.
void ProfilingMethod::queue_halves() {
  if (left_s() <= 0) return;
  std::set<std::int64_t> lengths;
  for (const Microbatch& microbatch : first_grid()) lengths.insert(microbatch.length);
  for (const std::int64_t length : lengths) {
    const std::vector<ProfilePoint> points = points_of(length);
    if (points.size() < 3) continue;
    const ProfilePoint& single = points.front();
    const ProfilePoint& before = points[points.size() - 2];
    const std::int64_t half = points.back().load.sequences / 2;
    if (before.load.units >= kFarMoreUnits * single.load.units &&
        before.seconds() < kHardlyLonger * single.seconds() && half > before.load.sequences) {
      waiting_.push_back({.length = length, .sequences = half});
    }
  }
}

bool ProfilingMethod::queue_bend() {
  if (left_s() <= 0) return false;
  if (bend_length_ && points_of(*bend_length_).empty()) return false;  // the load ran out of memory
  bend_length_ = sharpest_bend();
  if (!bend_length_) return false;
  const std::int64_t most = std::max<std::int64_t>(1, options_.most_units / *bend_length_);
  waiting_.push_back({.length = *bend_length_, .sequences = 1});
  if (most > 1) waiting_.push_back({.length = *bend_length_, .sequences = most});
  return true;
}

// Queues points that contradict others. Noise only adds time, so the more expensive of two such
// points is measured again, and left out if it still contradicts.
void ProfilingMethod::queue_contradicted() {
  for (const ProfilePoint& point : points_) {
    if (!is_contradicted(point, points_)) continue;
    const Microbatch microbatch{length_of(point.load), point.load.sequences};
    say(microbatch, "slower than a larger load, measured once more");
    waiting_.push_back(microbatch);
  }
  std::erase_if(points_, [this](const ProfilePoint& point) {
    return std::any_of(waiting_.begin(), waiting_.end(), [&point](const Microbatch& microbatch) {
      return microbatch.load() == point.load;
    });
  });
}

// Returns the middle of the interval of lengths in which interpolation is expected to err most,
// estimated from the change of slope at its ends.
std::optional<std::int64_t> ProfilingMethod::sharpest_bend() const {
  struct Largest {
    std::int64_t sequences = 0;
    double log_seconds = 0;  // of one of its sequences
  };
  std::map<std::int64_t, Largest> by_length;
  for (const ProfilePoint& point : points_) {
    Largest& largest = by_length[length_of(point.load)];
    if (point.load.sequences < largest.sequences) continue;
    largest = {point.load.sequences,
               std::log(point.seconds() / static_cast<double>(point.load.sequences))};
  }
  std::vector<double> x;
  std::vector<double> y;
  for (const auto& [length, largest] : by_length) {
    x.push_back(std::log(static_cast<double>(length)));
    y.push_back(largest.log_seconds);
  }
  std::optional<std::int64_t> middle;
  double worst = kLeastBend;
  const auto slope = [&](std::size_t i) { return (y[i + 1] - y[i]) / (x[i + 1] - x[i]); };
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    const double width = x[i + 1] - x[i];
    const std::int64_t candidate = rounded(std::exp((x[i] + x[i + 1]) / 2));
    if (width < 2 * kClosest || by_length.contains(candidate)) continue;
    double bend = 0;
    if (i > 0) bend = std::abs(slope(i) - slope(i - 1));
    if (i + 2 < x.size()) bend = std::max(bend, std::abs(slope(i) - slope(i + 1)));
    const double error = bend * width / 8;
    if (error <= worst) continue;
    worst = error;
    middle = candidate;
  }
  return middle;
}

bool ProfilingMethod::is_beyond_memory(const Microbatch& microbatch) const {
  return out_of_memory_.units > 0 && microbatch.length >= length_of(out_of_memory_) &&
         microbatch.load().units >= out_of_memory_.units;
}

bool ProfilingMethod::has(const ModuleLoad& load) const {
  return std::any_of(points_.begin(), points_.end(),
                     [&load](const ProfilePoint& point) { return point.load == load; });
}

// Returns the measured points of a length, ordered by sequences.
std::vector<ProfilePoint> ProfilingMethod::points_of(std::int64_t length) const {
  std::vector<ProfilePoint> points;
  for (const ProfilePoint& point : points_) {
    if (length_of(point.load) == length) points.push_back(point);
  }
  sort(points);
  return points;
}

double ProfilingMethod::left_s() const {
  return std::max(0.0, options_.budget.count() - for_cuts_s_ - elapsed_s_);
}

// Returns the seconds of the budget for the first of the waiting loads.
double ProfilingMethod::share_s() const {
  switch (stage_) {
    case Stage::kGrid:
    case Stage::kHalves:
      return left_s() * kGridShare / static_cast<double>(waiting_.size());
    case Stage::kBends:
      return left_s() * kBendShare;
    case Stage::kCuts:
      return cut_load_share_s_;
    case Stage::kContradictions:
    case Stage::kDone:
      return 0;
  }
  return 0;
}

Status ProfilingMethod::fail(Error error) {
  stage_ = Stage::kDone;
  current_.reset();
  waiting_.clear();
  return error;
}

void ProfilingMethod::say(const Microbatch& microbatch, const std::string& what) {
  std::string line = options_.module;
  if (stage_ == Stage::kCuts) {
    const ProfilingCut& cut = options_.cuts[cuts_.size() - 1];
    if (cut.tensor > 1) line += ", " + counted(cut.tensor, "tensor rank");
    if (cut.layers) line += ", " + counted(*cut.layers, "layer");
  }
  progress_.push_back(line + ": " + std::to_string(microbatch.sequences) + " x " +
                      std::to_string(microbatch.length) + ": " + what);
}

bool says_out_of_memory(std::string_view message) {
  std::string lower(message);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  // Words in messages of torch on CUDA and on the host; the last is that of cuBLAS and cuDNN.
  constexpr std::array<std::string_view, 4> kWords = {"out of memory", "can't allocate memory",
                                                      "not enough memory", "alloc_failed"};
  return std::any_of(kWords.begin(), kWords.end(), [&lower](std::string_view words) {
    return lower.find(words) != std::string::npos;
  });
}

}  // namespace isocost
