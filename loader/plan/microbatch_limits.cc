#include "loader/plan/microbatch_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/counted.h"
#include "costmodel/memory.h"

namespace isocost {
namespace {

// Cap on predicted bytes: above any limit, and small enough for a step's sum to stay within 63
// bits.
constexpr std::int64_t kMostPredicted = (std::int64_t{1} << 50) + 1;

// Returns a number like "16,384".
std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

}  // namespace

Result<MicrobatchLimits> MicrobatchLimits::create(const PlanOptions& options,
                                                  const CostProfile& profile) {
  MicrobatchLimits limits;
  limits.padded_multiple_ = options.padded_multiple;
  limits.assumes_model_ = profile.source == CostProfile::kBuiltIn;
  for (std::size_t m = 0; m < kModules; ++m) {
    limits.activation_bytes_.at(m) = activation_bytes_per_unit(profile.modules.at(m));
  }
  const bool knows_memory =
      std::any_of(limits.activation_bytes_.begin(), limits.activation_bytes_.end(),
                  [](double bytes) { return bytes > 0; });
  if (options.max_memory > 0 && !knows_memory) {
    return Error(ErrorCode::kInvalidArgument,
                 "max_memory: the model profile (" + profile.source +
                     ") knows no bytes of activations: give one that was measured, or one with "
                     "the modules' dimensions (docs/model_profile.md), or max_tokens instead");
  }
  const Limit all[] = {
      {Measure::kTokens, "max_tokens", "LLM tokens", options.max_tokens},
      {Measure::kVisionTokens, "max_vision_tokens", "vision patches", options.max_vision_tokens},
      {Measure::kMemory, "max_memory", "bytes of activations and tensors", options.max_memory},
      {Measure::kTensorBytes, "microbatch_memory", "bytes of tensors", options.microbatch_memory}};
  for (const Limit& limit : all) {
    if (limit.cap > 0) limits.limits_.push_back(limit);
  }
  return limits;
}

std::vector<Resource> MicrobatchLimits::resources() const {
  std::vector<Resource> resources;
  resources.reserve(limits_.size());
  for (const Limit& limit : limits_) resources.push_back({limit.unit, limit.cap});
  return resources;
}

std::int64_t MicrobatchLimits::units(const Load& load, Module module) const {
  const std::int64_t units = load[module].units;
  if (module != Module::kLlm) return units;
  // The sum of several padded samples is such a multiple already.
  return (units + padded_multiple_ - 1) / padded_multiple_ * padded_multiple_;
}

std::int64_t MicrobatchLimits::size(const Load& load, Measure measure) const {
  switch (measure) {
    case Measure::kTokens:
      return units(load, Module::kLlm);
    case Measure::kVisionTokens:
      return load[Module::kVision].units;
    case Measure::kTensorBytes:
      return load.tensor_bytes;
    case Measure::kMemory:
      break;
  }
  auto bytes = static_cast<double>(load.tensor_bytes);
  for (std::size_t m = 0; m < kModules; ++m) {
    const std::int64_t held = units(load, static_cast<Module>(m));
    bytes += std::ceil(activation_bytes_.at(m) * static_cast<double>(held));
  }
  constexpr auto kMost = static_cast<double>(kMostPredicted);
  return bytes < kMost ? static_cast<std::int64_t>(bytes) : kMostPredicted;
}

void MicrobatchLimits::append_sizes(const Load& load, std::vector<std::int64_t>& sizes) const {
  for (const Limit& limit : limits_) sizes.push_back(size(load, limit.measure));
}

void MicrobatchLimits::append_room_taken(const Load& load, std::vector<std::int64_t>& sizes) const {
  for (const Limit& limit : limits_)
    sizes.push_back(std::min(size(load, limit.measure), limit.cap));
}

bool MicrobatchLimits::keeps(const std::vector<Load>& run) const {
  return std::all_of(limits_.begin(), limits_.end(), [&](const Limit& limit) {
    std::int64_t largest = 0;
    for (const Load& load : run) largest = std::max(largest, size(load, limit.measure));
    return sum(run, limit.measure) <= std::max(limit.cap, largest);
  });
}

std::optional<std::string> MicrobatchLimits::why_too_large(const Load& load) const {
  for (const Limit& limit : limits_) {
    const std::int64_t held = size(load, limit.measure);
    if (held <= limit.cap) continue;
    return fmt::format("has {} {}, and {} allows {} in a microbatch: {}", grouped(held), limit.unit,
                       limit.option, grouped(limit.cap), remedy(limit, "raise it"));
  }
  return std::nullopt;
}

std::string MicrobatchLimits::remedy(const Limit& limit, const std::string& otherwise) const {
  if (limit.measure != Measure::kMemory || !assumes_model_) return otherwise;
  return "the bytes are those of the built-in model profile, which is not of your model: give "
         "`profile` what `isocost model profile DIR` measures, or " +
         otherwise;
}

std::int64_t MicrobatchLimits::sum(const std::vector<Load>& loads, Measure measure) const {
  std::int64_t sum = 0;
  for (const Load& load : loads) sum += size(load, measure);
  return sum;
}

Error MicrobatchLimits::too_full(const std::vector<Load>& loads, std::size_t microbatches) const {
  // Finds the limit of which the samples take the greatest share.
  const auto share = [&](const Limit& limit) {
    return static_cast<double>(sum(loads, limit.measure)) / static_cast<double>(limit.cap);
  };
  const Limit& limit =
      *std::max_element(limits_.begin(), limits_.end(),
                        [&](const Limit& a, const Limit& b) { return share(a) < share(b); });
  const std::int64_t held = sum(loads, limit.measure);
  const auto room = limit.cap * static_cast<std::int64_t>(microbatches);
  std::int64_t largest = 0;
  for (const Load& load : loads) largest = std::max(largest, size(load, limit.measure));
  const std::string by =
      held > room ? fmt::format("{} too many", grouped(held - room))
                  : fmt::format(
                        "but no division was found that keeps each within its limit (the "
                        "largest sample has {})",
                        grouped(largest));
  return {ErrorCode::kResourceExhausted,
          fmt::format("a step of {} does not fit: they have {} {}, and {} of at most {} ({}) hold "
                      "{}, {}; {}, give more microbatches, or leave their number out where it need "
                      "not be fixed: it is then chosen for each step",
                      counted(loads.size(), "sample"), grouped(held), limit.unit,
                      counted(microbatches, "microbatch"), grouped(limit.cap), limit.option,
                      grouped(room), by, remedy(limit, std::string("raise ") + limit.option))};
}

}  // namespace isocost
