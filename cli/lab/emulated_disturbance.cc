#include "cli/lab/emulated_disturbance.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <string_view>
#include <utility>

#include "base/fingerprint.h"
#include "base/random.h"

namespace isocost::cli {
namespace {

template <typename T>
bool take_number(std::string_view& text, T& number) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return failure == std::errc();
}

// Parses "1.2", "1.2@50" or "1.2@50-150": a factor, and the steps in which it applies.
bool take_change(std::string_view text, EmulatedChange& change) {
  change.until = std::numeric_limits<std::size_t>::max();
  if (!take_number(text, change.factor)) return false;
  if (text.starts_with('@')) {
    text.remove_prefix(1);
    if (!take_number(text, change.from)) return false;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!take_number(text, change.until)) return false;
    }
  }
  return text.empty() && change.factor >= 0.01 && change.factor <= 100 &&
         change.from < change.until;
}

Error bad_change(const char* flag, const std::string& text, const char* like) {
  return {ErrorCode::kInvalidArgument, std::string(flag) + " is '" + text + "'; it must be like " +
                                           like +
                                           ": a factor from 0.01 to 100, and the first step that "
                                           "it applies to and the first that it "
                                           "no longer does"};
}

}  // namespace

void EmulatedAnomalies::choose_lengths(std::span<const Load> samples, std::uint64_t seed) {
  if (!(share > 0) || samples.empty()) return;
  std::vector<std::int64_t> lengths;
  lengths.reserve(samples.size());
  for (const Load& sample : samples) lengths.push_back(sample[CostModule::kLlm].units);
  std::ranges::sort(lengths);
  const auto count = static_cast<std::size_t>(
      std::max(1.0, std::round(share * static_cast<double>(lengths.size()))));
  Random random(seed);
  const std::size_t first = random.below(lengths.size() - count + 1);
  shortest = lengths[first];
  longest = lengths[first + count - 1];
}

Result<EmulatedDisturbance> parse_disturbance(const DisturbanceText& text, std::size_t ranks) {
  EmulatedDisturbance disturbance{.noise = text.noise, .measuring_cost = text.measuring_cost};
  if (!text.anomalies.empty()) {
    EmulatedAnomalies& anomalies = disturbance.anomalies;
    std::string_view rest = text.anomalies;
    const bool has_share = take_number(rest, anomalies.share) && rest.starts_with(':');
    if (has_share) rest.remove_prefix(1);
    if (!has_share || !take_number(rest, anomalies.factor) || !rest.empty() ||
        !(anomalies.share > 0 && anomalies.share <= 1) ||
        !(anomalies.factor >= 0.01 && anomalies.factor <= 100)) {
      return Error(ErrorCode::kInvalidArgument,
                   "--anomalies is '" + text.anomalies +
                       "'; it must be like 0.05:1.5: a share of the samples above 0 and at most 1, "
                       "and a factor from 0.01 to 100 on their seconds in the LLM");
    }
  }
  if (!text.slow_rank.empty()) {
    std::string_view rest = text.slow_rank;
    const bool named = take_number(rest, disturbance.slow_rank) && rest.starts_with(':');
    if (!named || !take_change(rest.substr(1), disturbance.slow)) {
      return bad_change("--slow-rank", text.slow_rank, "3:1.2@50-150");
    }
    if (disturbance.slow_rank >= ranks) {
      return Error(ErrorCode::kInvalidArgument,
                   "--slow-rank is " + std::to_string(disturbance.slow_rank) +
                       "; the last rank is " + std::to_string(ranks - 1));
    }
  }
  std::set<std::string_view> changed;
  for (const std::string& change : text.changes) {
    const std::string_view view = change;
    const std::size_t colon = std::min(view.find(':'), view.size());
    const bool encoder = view.substr(0, colon) == "encoder";
    const bool known = encoder || view.substr(0, colon) == "llm";
    if (!known || colon == view.size() ||
        !take_change(view.substr(colon + 1), encoder ? disturbance.encoder : disturbance.llm)) {
      return bad_change("--change", change, "encoder:3@100 or llm:1.5@20-40");
    }
    if (!changed.insert(view.substr(0, colon)).second) {
      return Error(
          ErrorCode::kInvalidArgument,
          "--change is given twice for " + change.substr(0, colon) + "; a module changes once");
    }
  }
  return disturbance;
}

namespace {

// Draws a standard normal number by the method of Box and Muller (1958).
double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

}  // namespace

SampleCost disturbed(const EmulatedDisturbance& by, const EmulatedWork& work, SampleCost load) {
  const double slow = work.replica == by.slow_rank ? by.slow.at(work.step) : 1;
  Fingerprint seed;
  seed.add(by.seed);
  for (const std::size_t part :
       {std::size_t{work.encoder}, work.replica, work.step, work.microbatch}) {
    seed.add(part);
  }
  Random random(seed.value());
  constexpr double kLeast = 0.01;
  for (auto& [seconds, change] :
       {std::pair{&load.encoder_s, &by.encoder}, {&load.llm_s, &by.llm}}) {
    const double noise = std::max(kLeast, 1 + by.noise * normal(random));
    *seconds *= slow * change->at(work.step) * noise;
  }
  return load;
}

}  // namespace isocost::cli
