#include "loader/node/internal/joined_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/statistics.h"
#include "costmodel/memory.h"

namespace isocost {
namespace {

// Largest factor between the seconds of equal layers on two trainers. Slow machines do not explain
// a larger one; a wrong number of layers does.
constexpr double kMostFactor = 3;

// The measurements of one module by a receiver that has layers of it.
struct Measured {
  const Receiver& receiver;
  const LayerProfile::Module& layers;
};

std::string trainer_at(const Receiver& receiver) { return "the trainer at " + receiver.name; }

template <typename... Arguments>
Error disagreement(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return {ErrorCode::kInvalidArgument, fmt::format(text, std::forward<Arguments>(arguments)...)};
}

// Returns the measurements of a module; none if nobody measured it.
Result<std::vector<Measured>> measured_by(std::span<const ProfilePart> parts, CostModule module,
                                          bool needed) {
  const std::string_view name = module_name(module);
  std::vector<Measured> measured;
  const Receiver* without = nullptr;
  for (const ProfilePart& part : parts) {
    const bool here = part.receiver->work.shares.at(static_cast<std::size_t>(module)) > 0;
    const std::optional<LayerProfile::Module>& layers = part.layers[module];
    if (layers && !here) {
      return disagreement("{} measured layers of {}, of which its stage has none",
                          trainer_at(*part.receiver), name);
    }
    if (layers) measured.push_back({*part.receiver, *layers});
    if (!layers && here && without == nullptr) without = part.receiver;
  }
  if (without != nullptr && (needed || !measured.empty())) {
    return disagreement("{} measured no layer of {}, of which its stage has layers: give {}= too",
                        trainer_at(*without), name, name);
  }
  return measured;
}

// The loads that a receiver measured, from the shortest to the longest sequences.
struct Span {
  std::int64_t units = 0;  // of the largest microbatch
  double shortest = 0;
  double longest = 0;
  bool operator==(const Span&) const = default;
  std::string to_string() const {
    return fmt::format("sequences of {:.0f} to {:.0f} in microbatches of up to {}", shortest,
                       longest, units);
  }
};

Span span_of(const std::vector<ProfilePoint>& points) {
  Span span;
  for (const ProfilePoint& point : points) {
    const double length =
        static_cast<double>(point.load.units) / static_cast<double>(point.load.sequences);
    span.units = std::max(span.units, point.load.units);
    span.longest = std::max(span.longest, length);
    span.shortest = span.shortest == 0 ? length : std::min(span.shortest, length);
  }
  return span;
}

bool has_backward(const Measured& measured) {
  return std::ranges::any_of(measured.layers.points,
                             [](const ProfilePoint& point) { return point.backward_s > 0; });
}

std::string same_loads_remedy(const Measured& first, const Measured& other) {
  for (const Measured& measured : {first, other}) {
    if (measured.layers.out_of_memory == ModuleLoad{}) continue;
    return trainer_at(measured.receiver) +
           " ran out of memory: let all stages measure smaller microbatches (most_units)";
  }
  return "give all stages the same loads";
}

Status check_alike(const std::vector<Measured>& measured, std::string_view module) {
  const Measured& first = measured.front();
  const Span span = span_of(first.layers.points);
  for (const Measured& other : measured) {
    const Span theirs = span_of(other.layers.points);
    if (!(theirs == span)) {
      return disagreement("{} measured {} with {}, and {} with {}: {}", trainer_at(first.receiver),
                          module, span.to_string(), trainer_at(other.receiver), theirs.to_string(),
                          same_loads_remedy(first, other));
    }
    if (has_backward(other) != has_backward(first)) {
      const bool other_has = has_backward(other);
      return disagreement(
          "{} measured a backward pass of {}, and {} none: give layers that are trained alike",
          trainer_at((other_has ? other : first).receiver), module,
          trainer_at((other_has ? first : other).receiver));
    }
  }
  return {};
}

const ProfilePoint* point_at(const Measured& measured, const ModuleLoad& load) {
  const auto& points = measured.layers.points;
  const auto at = std::ranges::find(points, load, &ProfilePoint::load);
  return at == points.end() ? nullptr : &*at;
}

// Returns the loads that all measured. Beyond the first ones, a load depends on what was measured.
std::vector<ModuleLoad> common_loads(const std::vector<Measured>& measured) {
  std::vector<ModuleLoad> common;
  for (const ProfilePoint& point : measured.front().layers.points) {
    const bool all = std::ranges::all_of(measured, [&point](const Measured& other) {
      return point_at(other, point.load) != nullptr;
    });
    if (all) common.push_back(point.load);
  }
  return common;
}

// Returns the whole module's point on one rank.
ProfilePoint whole(const Measured& measured, CostModule module, const ModuleLoad& load) {
  ProfilePoint point = *point_at(measured, load);
  const double factor =
      measured.receiver.layers_as_one_rank(module, static_cast<double>(measured.layers.layers),
                                           point.seconds(), load.units) /
      point.seconds();
  point.forward_s *= factor;
  point.backward_s *= factor;
  return point;
}

// A module's points of one load, by the stages that measured it.
using ByStage = std::map<std::pair<LayoutModule, std::uint32_t>, std::vector<ProfilePoint>>;

double median_of(const std::vector<ProfilePoint>& points, double ProfilePoint::* field) {
  std::vector<double> values;
  values.reserve(points.size());
  for (const ProfilePoint& point : points) values.push_back(point.*field);
  return median(values);
}

ProfilePoint joined_point(const std::vector<Measured>& measured, CostModule module,
                          const ModuleLoad& load) {
  ByStage stages;
  std::map<std::pair<LayoutModule, std::uint32_t>, double> weights;
  for (const Measured& part : measured) {
    const std::pair stage{part.receiver.module, part.receiver.stage};
    stages[stage].push_back(whole(part, module, load));
    weights[stage] = part.receiver.work.shares.at(static_cast<std::size_t>(module));
  }
  ProfilePoint joined{.load = load};
  double sum = 0;
  for (const auto& [stage, points] : stages) {
    const double weight = weights.at(stage);
    sum += weight;
    joined.forward_s += weight * median_of(points, &ProfilePoint::forward_s);
    joined.backward_s += weight * median_of(points, &ProfilePoint::backward_s);
    joined.spread = std::max(joined.spread, median_of(points, &ProfilePoint::spread));
  }
  joined.forward_s /= sum;
  joined.backward_s /= sum;
  return joined;
}

Status check_seconds(const std::vector<Measured>& measured, CostModule module,
                     const std::vector<ModuleLoad>& loads) {
  std::vector<std::pair<double, const Receiver*>> totals;
  for (const Measured& part : measured) {
    double total = 0;
    for (const ModuleLoad& load : loads) total += whole(part, module, load).seconds();
    totals.emplace_back(total, &part.receiver);
  }
  const auto [least, most] = std::ranges::minmax(totals);
  if (most.first <= kMostFactor * least.first) return {};
  return disagreement(
      "a layer of {} takes {:.1f} times as long for {} as for {}: give `layers` as many as run",
      module_name(module), most.first / least.first, trainer_at(*most.second),
      trainer_at(*least.second));
}

// Returns the forward pass's part of the seconds of large loads.
double forward_share_of(const std::vector<ProfilePoint>& points) {
  std::int64_t most = 0;
  for (const ProfilePoint& point : points) most = std::max(most, point.load.units);
  std::vector<double> shares;
  for (const ProfilePoint& point : points) {
    if (2 * point.load.units >= most) shares.push_back(point.forward_s / point.seconds());
  }
  return median(shares);
}

// Returns the module's new profile. Memory is what was measured of the whole module.
ModuleProfile with_points(const ModuleProfile& present, std::vector<ProfilePoint> points) {
  ModuleProfile module;
  module.architecture = present.architecture;
  const bool had_peaks = std::ranges::any_of(
      present.points, [](const ProfilePoint& point) { return point.peak_bytes > 0; });
  const ModuleLoad& full = present.out_of_memory;
  bool fits = true;
  for (ProfilePoint& point : points) {
    point.peak_bytes = had_peaks ? predict_memory(present, point.load).activations : 0;
    fits = fits && (point.load.units < full.units || point.load.units_squared < full.units_squared);
  }
  if (fits) module.out_of_memory = full;
  module.coefficients = fit_coefficients(points);
  module.forward_share = forward_share_of(points);
  module.points = std::move(points);
  return module;
}

}  // namespace

Result<CostProfile> join_parts(const CostProfile& present, std::span<const ProfilePart> parts,
                               const std::array<bool, kModules>& needed) {
  CostProfile joined = present;
  for (std::size_t m = 0; m < kModules; ++m) {
    const auto module = static_cast<CostModule>(m);
    ISOCOST_ASSIGN(const std::vector<Measured> measured, measured_by(parts, module, needed.at(m)));
    if (measured.empty()) continue;
    ISOCOST_TRY(check_alike(measured, module_name(module)));
    const std::vector<ModuleLoad> loads = common_loads(measured);
    if (loads.empty()) {
      return disagreement(
          "no load of {} was measured by all stages: give every stage the same loads",
          module_name(module));
    }
    ISOCOST_TRY(check_seconds(measured, module, loads));
    std::vector<ProfilePoint> points;
    points.reserve(loads.size());
    for (const ModuleLoad& load : loads) points.push_back(joined_point(measured, module, load));
    joined.modules.at(m) = with_points(present.modules.at(m), std::move(points));
  }
  joined.source = "layers measured in training";
  return joined;
}

}  // namespace isocost
