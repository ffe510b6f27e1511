#include "cli/lab/stage_microbatch.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace isocost::cli {

Report report_of(const StageMicrobatch& microbatch) {
  Report report = microbatch.report;
  const double sum = std::accumulate(report.seconds.begin(), report.seconds.end(), 0.0);
  const double work_s = microbatch.seconds / (1 + microbatch.measuring);
  for (double& seconds : report.seconds) {
    seconds = sum > 0 && seconds > 0 ? work_s * seconds / sum : kNotMeasured;
  }
  if (sum > 0) report.forward_s = microbatch.forward_s / (1 + microbatch.measuring);
  report.measuring_s = microbatch.seconds - work_s;
  return report;
}

double anomalous_s(const EmulatedAnomalies& anomalies, const MicrobatchHeader& header,
                   std::span<const Load> loads, const SamplePrices& prices) {
  double seconds = 0;
  for (const SampleEntry& sample : header.samples) {
    const Load& load = loads[sample.id % loads.size()];
    if (anomalies.has(load)) seconds += (anomalies.factor - 1) * prices.of(load).llm_s;
  }
  return seconds;
}

std::vector<EmulatedFeed> feeds_of(const MicrobatchHeader& header, std::span<const Load> loads,
                                   const SamplePrices& prices, double bytes_per_llm_unit) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::set<std::uint32_t>> samples;
  for (const Route& route : header.routes) {
    samples[{route.replica, route.microbatch}].insert(route.sample);
  }
  std::vector<EmulatedFeed> feeds;
  for (const auto& [from, fed] : samples) {
    double units = 0;
    for (const std::uint32_t i : fed) {
      units += prices.of(loads[header.samples.at(i).id % loads.size()]).llm_units;
    }
    feeds.push_back(
        {from.first, from.second, static_cast<std::int64_t>(units * bytes_per_llm_unit)});
  }
  return feeds;
}

std::vector<FedMicrobatches> fed_by(std::span<const StageMicrobatch> microbatches) {
  std::vector<FedMicrobatches> fed;
  for (const StageMicrobatch& microbatch : microbatches) {
    FedMicrobatches& range = fed.emplace_back(fed.empty() ? FedMicrobatches{} : fed.back());
    if (microbatch.routes.empty()) continue;
    const auto [first, last] = std::minmax_element(
        microbatch.routes.begin(), microbatch.routes.end(),
        [](const Route& a, const Route& b) { return a.microbatch < b.microbatch; });
    range = {first->microbatch, last->microbatch};
  }
  return fed;
}

}  // namespace isocost::cli
