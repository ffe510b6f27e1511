#include "trainer_adapter/torch/profiler.h"

#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "trainer_adapter/torch/internal/peak_memory.h"

namespace isocost {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTargetSpread = 0.03;
constexpr std::size_t kLeastRuns = 7;   // below, the interval of a median is the whole range
constexpr std::size_t kFewestRuns = 3;  // once the load's part of the budget is spent
constexpr std::size_t kMostRuns = 200;
constexpr int kFirstLengths = 5;
constexpr double kLeastBend = 0.01;
constexpr double kCutShare = 0.1;  // of the budget for each cut, half of it at most
constexpr double kClosest = 0.18;  // of logarithms of lengths: a fifth

struct Grid {
  std::int64_t length = 0;
  std::int64_t count = 0;
  std::int64_t units() const { return length * count; }
};

struct Timed {
  double forward_s = 0;
  double backward_s = 0;
  double seconds() const { return forward_s + backward_s; }
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Half of the median's 95 % interval, by order statistics.
double spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  const double reach = 1.96 * std::sqrt(n) / 2;
  const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(n / 2 - reach)));
  const auto high = static_cast<std::size_t>(std::min(n - 1, std::ceil(n / 2 + reach)));
  return (values[high] - values[low]) / 2 / values[values.size() / 2];
}

bool is_out_of_memory(const std::string& what) {
  return what.find("out of memory") != std::string::npos ||
         what.find("an't allocate memory") != std::string::npos ||
         what.find("not enough memory") != std::string::npos;
}

// In training other modules run before this one, and between its two halves: it finds its weights
// and activations in memory, not in the caches.
void leave_caches() {
  static thread_local std::vector<std::int64_t> other(std::size_t{16} << 20);  // 128 MiB
  for (std::int64_t& value : other) ++value;
}

Timed run_once(const ProfiledForward& forward) {
  leave_caches();
  const auto start = Clock::now();
  const at::Tensor output = forward();
  if (output.is_cuda()) torch::cuda::synchronize();
  Timed timed{.forward_s = seconds_since(start)};
  if (!output.requires_grad()) return timed;
  leave_caches();
  const auto middle = Clock::now();
  output.sum().backward();
  if (output.is_cuda()) torch::cuda::synchronize();
  timed.backward_s = seconds_since(middle);
  return timed;
}

std::int64_t peak_of(const ProfiledForward& forward) {
  const PeakMemory memory;
  run_once(forward);
  return memory.bytes();
}

double together(const ProfilerOptions& options, double value) {
  return options.agree ? options.agree(value) : value;
}

ProfilePoint measure(const PrepareForward& prepare, const Grid& at, double budget_s,
                     const ProfilerOptions& options) {
  const auto start = Clock::now();
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(at.count), at.length);
  const ProfiledForward forward = prepare(lengths);
  run_once(forward);  // makes the gradients, which stay
  const std::int64_t peak_bytes = peak_of(forward);
  std::vector<double> forwards;
  std::vector<double> backwards;
  std::vector<double> totals;
  const auto enough = [&] {
    if (totals.size() < kFewestRuns) return false;
    if (totals.size() >= kMostRuns || together(options, seconds_since(start)) > budget_s) {
      return true;
    }
    return totals.size() >= kLeastRuns && spread_of(totals) <= kTargetSpread;
  };
  while (!enough()) {
    Timed timed = run_once(forward);
    timed.forward_s = together(options, timed.forward_s);
    timed.backward_s = together(options, timed.backward_s);
    forwards.push_back(timed.forward_s);
    backwards.push_back(timed.backward_s);
    totals.push_back(timed.seconds());
  }
  return {
      .load = {.sequences = at.count, .units = at.units(), .units_squared = at.length * at.units()},
      .forward_s = median(forwards),
      .backward_s = median(backwards),
      .spread = spread_of(totals),
      .peak_bytes = peak_bytes};
}

bool contradicted(const ProfilePoint& point, const std::vector<ProfilePoint>& points) {
  return std::any_of(points.begin(), points.end(),
                     [&point](const ProfilePoint& other) { return contradicts(point, other); });
}

class Profiler {
 public:
  Profiler(std::string name, const ProfiledModule& module, const ProfilerOptions& options)
      : name_(std::move(name)),
        module_(module),
        options_(options),
        for_cuts_s_(options.budget.count() *
                    std::min(0.5, kCutShare * static_cast<double>(module.cuts.size()))) {}

  Result<ModuleProfile> run() {
    ISOCOST_TRY(run_whole());
    for (const ProfiledCut& cut : module_.cuts) run_cut(cut);
    profile_.architecture = module_.architecture;
    profile_.coefficients = fit_coefficients(profile_.points);
    return std::move(profile_);
  }

 private:
  Status run_whole() {
    std::vector<Grid> waiting = first_grid();
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      ISOCOST_TRY(visit(waiting[i], left() / 2 / static_cast<double>(waiting.size() - i)));
    }
    while (left() > 0) {
      const std::optional<std::int64_t> length = sharpest_bend();
      if (!length) break;
      const std::int64_t most = std::max<std::int64_t>(1, module_.most_units / *length);
      for (const std::int64_t count : std::set<std::int64_t>{1, most}) {
        ISOCOST_TRY(visit({*length, count}, left() / 4));
      }
      if (!has(*length)) break;  // out of memory there
    }
    ISOCOST_TRY(settle_contradictions());
    // What has run since at no smaller load was no boundary.
    const ModuleLoad& full = profile_.out_of_memory;
    const bool ran = std::any_of(
        profile_.points.begin(), profile_.points.end(), [&full](const ProfilePoint& point) {
          return point.load.units >= full.units && point.load.units_squared >= full.units_squared;
        });
    if (full.units > 0 && ran) profile_.out_of_memory = {};
    return {};
  }

  // The largest load of each length of the first grid that the whole module was measured with.
  void run_cut(const ProfiledCut& cut) {
    std::map<std::int64_t, std::int64_t> most;  // length, count
    for (const Grid& at : first_grid()) most[at.length] = std::max(most[at.length], at.count);
    const double budget_s =
        for_cuts_s_ / static_cast<double>(module_.cuts.size()) / static_cast<double>(most.size());
    const std::string label = (cut.tensor > 1 ? std::to_string(cut.tensor) + " tensor ranks" : "") +
                              (cut.tensor > 1 && cut.layers > 0 ? ", " : "") +
                              (cut.layers > 0 ? std::to_string(cut.layers) + " layers" : "");
    ProfileCut measured{.tensor = cut.tensor, .layers = cut.layers, .points = {}};
    for (const auto& [length, count] : most) {
      const Grid at{.length = length, .count = count};
      if (!has(at)) continue;
      if (const auto point = try_measure(cut.prepare, at, budget_s)) {
        measured.points.push_back(*point);
        say(at, describe(*point) + ", " + label);
      } else {
        say(at, "out of memory, " + label);
      }
    }
    std::erase_if(measured.points, [points = measured.points](const ProfilePoint& point) {
      return contradicted(point, points);
    });
    profile_.cuts.push_back(std::move(measured));
  }

  // Of the budget for the whole module.
  double left() const {
    const double spent = together(options_, seconds_since(start_));
    return std::max(0.0, options_.budget.count() - for_cuts_s_ - spent);
  }

  std::int64_t rounded(double length) const {
    const auto multiple = static_cast<double>(module_.multiple);
    return std::max(module_.multiple,
                    static_cast<std::int64_t>(std::lround(length / multiple)) * module_.multiple);
  }

  bool has(const Grid& at) const {
    return std::any_of(profile_.points.begin(), profile_.points.end(), [&](const auto& point) {
      return point.load.units == at.units() && point.load.sequences == at.count;
    });
  }

  bool has(std::int64_t length) const {
    return std::any_of(profile_.points.begin(), profile_.points.end(), [&](const auto& point) {
      return point.load.units == length * point.load.sequences;
    });
  }

  // Noise only adds: the more expensive of two points that contradict each other is measured once
  // more, and goes if it still does.
  Status settle_contradictions() {
    for (const bool is_last : {false, true}) {
      const std::vector<ProfilePoint> points = profile_.points;
      for (const ProfilePoint& point : points) {
        if (!contradicted(point, points)) continue;
        const Grid at{.length = point.load.units / point.load.sequences,
                      .count = point.load.sequences};
        std::erase_if(profile_.points, [&](const auto& one) { return one.load == point.load; });
        say(at, is_last ? "slower than a larger load, left out"
                        : "slower than a larger load, measured once more");
        if (!is_last) ISOCOST_TRY(visit(at, 0));
      }
    }
    return {};
  }

  // Small loads first, so that what runs out of memory is known early.
  std::vector<Grid> first_grid() const {
    std::set<std::pair<std::int64_t, std::int64_t>> loads;  // units, length
    const double range =
        static_cast<double>(module_.longest) / static_cast<double>(module_.shortest);
    for (int i = 0; i < kFirstLengths; ++i) {
      const double part = static_cast<double>(i) / (kFirstLengths - 1);
      const std::int64_t length =
          rounded(static_cast<double>(module_.shortest) * std::pow(range, part));
      const std::int64_t fit = module_.most_units / length;
      if (fit == 0) continue;
      const auto between = static_cast<std::int64_t>(std::lround(std::sqrt(fit)));
      for (const std::int64_t count : {std::int64_t{1}, between, fit}) {
        loads.emplace(length * count, length);
      }
    }
    std::vector<Grid> grid;
    for (const auto& [units, length] : loads) grid.push_back({length, units / length});
    return grid;
  }

  Status visit(const Grid& at, double budget_s) {
    const ModuleLoad& full = profile_.out_of_memory;
    if (full.units > 0 && at.units() >= full.units && at.length >= full.units / full.sequences) {
      return {};
    }
    const std::optional<ProfilePoint> point = try_measure(module_.prepare, at, budget_s);
    if (!point) return note_out_of_memory(at);
    profile_.points.push_back(*point);
    say(at, describe(*point));
    return {};
  }

  // Nothing where memory runs out.
  std::optional<ProfilePoint> try_measure(const PrepareForward& prepare, const Grid& at,
                                          double budget_s) const {
    try {
      return measure(prepare, at, budget_s, options_);
    } catch (const std::bad_alloc&) {
      return std::nullopt;
    } catch (const c10::Error& error) {
      if (!is_out_of_memory(error.what())) throw;
      return std::nullopt;
    }
  }

  static std::string describe(const ProfilePoint& point) {
    return std::to_string(1e3 * point.seconds()) + " ms ± " +
           std::to_string(std::lround(100 * point.spread)) + " %";
  }

  Status note_out_of_memory(const Grid& at) {
    say(at, "out of memory");
    if (profile_.points.empty()) {
      return Error(ErrorCode::kResourceExhausted,
                   "profile of " + name_ + ": the smallest load, " + std::to_string(at.count) +
                       " x " + std::to_string(at.length) +
                       ", runs out of memory; give shorter lengths or free the device");
    }
    ModuleLoad& full = profile_.out_of_memory;
    if (full.units > 0 && full.units <= at.units()) return {};
    full = {.sequences = at.count, .units = at.units(), .units_squared = at.length * at.units()};
    return {};
  }

  void say(const Grid& at, const std::string& what) const {
    if (!options_.progress) return;
    options_.progress(name_ + ": " + std::to_string(at.count) + " x " + std::to_string(at.length) +
                      ": " + what);
  }

  // The middle of the interval of lengths in which interpolation is expected to err most.
  std::optional<std::int64_t> sharpest_bend() const {
    std::map<std::int64_t, std::pair<std::int64_t, double>> most;  // count, log seconds of one
    for (const ProfilePoint& point : profile_.points) {
      auto& entry = most[point.load.units / point.load.sequences];
      if (point.load.sequences < entry.first) continue;
      entry = {point.load.sequences,
               std::log(point.seconds() / static_cast<double>(point.load.sequences))};
    }
    std::vector<double> x;
    std::vector<double> y;
    for (const auto& [length, entry] : most) {
      x.push_back(std::log(static_cast<double>(length)));
      y.push_back(entry.second);
    }
    std::optional<std::int64_t> middle;
    double worst = kLeastBend;
    const auto slope = [&](std::size_t i) { return (y[i + 1] - y[i]) / (x[i + 1] - x[i]); };
    for (std::size_t i = 0; i + 1 < x.size(); ++i) {
      const std::int64_t candidate = rounded(std::exp((x[i] + x[i + 1]) / 2));
      if (x[i + 1] - x[i] < 2 * kClosest || most.contains(candidate)) continue;
      double bend = 0;
      if (i > 0) bend = std::abs(slope(i) - slope(i - 1));
      if (i + 2 < x.size()) bend = std::max(bend, std::abs(slope(i) - slope(i + 1)));
      const double error = bend * (x[i + 1] - x[i]) / 8;
      if (error <= worst) continue;
      worst = error;
      middle = candidate;
    }
    return middle;
  }

  std::string name_;
  const ProfiledModule& module_;
  const ProfilerOptions& options_;
  Clock::time_point start_ = Clock::now();
  double for_cuts_s_;
  ModuleProfile profile_;
};

}  // namespace

Result<ModuleProfile> profile_module(const std::string& name, const ProfiledModule& module,
                                     const ProfilerOptions& options) {
  if (module.shortest < 1 || module.longest < module.shortest || module.multiple < 1 ||
      module.most_units < module.longest || options.budget.count() <= 0) {
    return Error(ErrorCode::kInvalidArgument,
                 "profile of " + name +
                     ": needs 1 <= shortest <= longest <= most_units, multiple >= 1 and a budget");
  }
  for (const ProfiledCut& cut : module.cuts) {
    const bool fewer =
        cut.layers > 0 && module.architecture && cut.layers < module.architecture->layers;
    if (cut.tensor >= 1 && (fewer || (cut.tensor > 1 && cut.layers == 0))) continue;
    return Error(ErrorCode::kInvalidArgument,
                 "profile of " + name + ": a cut has " + std::to_string(cut.tensor) +
                     " tensor ranks and " + std::to_string(cut.layers) +
                     " layers; it needs more than one rank, or fewer layers than the module's "
                     "architecture says");
  }
  return Profiler(name, module, options).run();
}

}  // namespace isocost
