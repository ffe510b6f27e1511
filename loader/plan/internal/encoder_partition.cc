#include "loader/plan/internal/encoder_partition.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "balancer/pipeline/simulator.h"

namespace isocost {
namespace {

constexpr std::array kMediaModules{CostModule::kVision, CostModule::kAudio};

bool has_media(const Load& load) {
  return load[CostModule::kVision].units > 0 || load[CostModule::kAudio].units > 0;
}

using ModuleUnits = std::array<std::uint32_t, kModules>;

// Returns the first unit of each sample in the packed sequence of all samples' units, per module.
std::vector<ModuleUnits> first_units(std::span<const Load> loads,
                                     const std::vector<PlannedSample>& samples) {
  std::vector<ModuleUnits> firsts;
  ModuleUnits at{};
  for (const PlannedSample& sample : samples) {
    firsts.push_back(at);
    for (std::size_t m = 0; m < kModules; ++m) {
      at.at(m) += static_cast<std::uint32_t>(loads[sample.index].modules.at(m).units);
    }
  }
  return firsts;
}

}  // namespace

EncoderPartition coupled_partition(const StepPlan& plan, std::span<const Load> loads,
                                   std::size_t encoder_replicas) {
  EncoderPartition partition(encoder_replicas);
  const std::size_t llm_replicas = plan.bins.size() / plan.microbatches;
  for (const Feed& feed : coupled_feeds(encoder_replicas, llm_replicas, plan.microbatches)) {
    std::vector<BinSample>& microbatch = partition[feed.encoder_replica].emplace_back();
    const std::uint32_t bin = feed.llm_replica * plan.microbatches + feed.microbatch;
    const std::vector<PlannedSample>& samples = plan.bins[bin].samples;
    for (std::uint32_t i = 0; i < samples.size(); ++i) {
      if (has_media(loads[samples[i].index])) microbatch.push_back({bin, i});
    }
  }
  for (auto& replica : partition) {
    if (replica.empty()) replica.emplace_back();
  }
  return partition;
}

EncoderPartition decoupled_partition(const StepPlan& plan, const EncoderSlots& slots) {
  std::unordered_map<std::size_t, BinSample> at;
  for (std::uint32_t bin = 0; bin < plan.bins.size(); ++bin) {
    const std::vector<PlannedSample>& samples = plan.bins[bin].samples;
    for (std::uint32_t i = 0; i < samples.size(); ++i) at[samples[i].index] = {bin, i};
  }
  EncoderPartition partition(slots.size());
  for (std::size_t e = 0; e < slots.size(); ++e) {
    for (const std::vector<std::uint32_t>& slot : slots[e]) {
      std::vector<BinSample>& microbatch = partition[e].emplace_back();
      microbatch.reserve(slot.size());
      for (const std::uint32_t sample : slot) microbatch.push_back(at.at(sample));
    }
  }
  return partition;
}

std::vector<std::vector<PlannedMicrobatch>> encoder_microbatches(
    const StepPlan& plan, const EncoderPartition& partition) {
  std::vector<std::vector<PlannedMicrobatch>> result(partition.size());
  for (std::size_t e = 0; e < partition.size(); ++e) {
    for (const std::vector<BinSample>& samples : partition[e]) {
      PlannedMicrobatch& microbatch = result[e].emplace_back();
      for (const BinSample& at : samples) {
        microbatch.samples.push_back(plan.bins[at.bin].samples[at.sample]);
      }
    }
  }
  return result;
}

void route(std::span<const Load> loads, const EncoderPartition& partition, StepPlan& plan) {
  std::vector<std::vector<ModuleUnits>> in_bins;
  in_bins.reserve(plan.bins.size());
  for (const PlannedMicrobatch& bin : plan.bins) in_bins.push_back(first_units(loads, bin.samples));
  for (std::uint32_t e = 0; e < partition.size(); ++e) {
    for (std::uint32_t k = 0; k < partition[e].size(); ++k) {
      PlannedMicrobatch& microbatch = plan.encoder[e][k];
      const std::vector<ModuleUnits> in_encoder = first_units(loads, microbatch.samples);
      for (std::uint32_t i = 0; i < partition[e][k].size(); ++i) {
        const BinSample& at = partition[e][k][i];
        const Load& load = loads[microbatch.samples[i].index];
        for (const CostModule module : kMediaModules) {
          if (load[module].units == 0) continue;
          const auto m = static_cast<std::size_t>(module);
          const auto units = static_cast<std::uint32_t>(load[module].units);
          const std::uint32_t here = in_encoder[i].at(m);
          const std::uint32_t there = in_bins[at.bin][at.sample].at(m);
          microbatch.routes.push_back({module, i, here, units, at.bin / plan.microbatches,
                                       at.bin % plan.microbatches, there});
          plan.bins[at.bin].routes.push_back({module, at.sample, there, units, e, k, here});
        }
      }
    }
  }
  for (PlannedMicrobatch& bin : plan.bins) {
    std::sort(bin.routes.begin(), bin.routes.end(), [](const Route& a, const Route& b) {
      return std::pair(a.sample, a.module) < std::pair(b.sample, b.module);
    });
  }
}

}  // namespace isocost
