#include "loader/plan/microbatch_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/counted.h"
#include "base/range.h"
#include "costmodel/memory.h"

namespace isocost {
namespace {

constexpr std::int64_t kMostTokens = 1'000'000'000;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

// Cap on predicted bytes: above any limit, and small enough for a step's sum to stay within 63
// bits.
constexpr std::int64_t kMostPredicted = kMostBytes + 1;

// Returns a number like "16,384".
std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

}  // namespace

/// One of the options that limit a microbatch.
struct MicrobatchLimits::Option {
  Measure measure;
  const char* name;
  const char* unit;
  std::int64_t PlanOptions::* value;
  std::int64_t most;
};

const std::array<MicrobatchLimits::Option, 4>& MicrobatchLimits::all_options() {
  using P = PlanOptions;
  static constexpr std::array<Option, 4> kOptions{{
      {Measure::kTokens, "max_tokens", "LLM tokens", &P::max_tokens, kMostTokens},
      {Measure::kVisionTokens, "max_vision_tokens", "vision patches", &P::max_vision_tokens,
       kMostTokens},
      {Measure::kMemory, "max_memory", "bytes of activations and tensors", &P::max_memory,
       kMostBytes},
      {Measure::kTensorBytes, "microbatch_memory", "bytes of tensors", &P::microbatch_memory,
       kMostBytes},
  }};
  return kOptions;
}

bool MicrobatchLimits::any_given(const PlanOptions& options) {
  const auto& all = all_options();
  return std::any_of(all.begin(), all.end(),
                     [&](const Option& option) { return options.*option.value > 0; });
}

Status MicrobatchLimits::validate(const PlanOptions& options) {
  const auto& all = all_options();
  for (const Option& option : all) {
    ISOCOST_TRY(check_range(option.name, options.*option.value, 0, option.most));
  }
  const auto* const given = std::find_if(
      all.begin(), all.end(), [&](const Option& option) { return options.*option.value > 0; });
  if (given == all.end() || options.balance == BalancePolicy::kCost) return {};
  return Error(ErrorCode::kInvalidArgument,
               std::string(given->name) + ": only balance = cost keeps a limit of a microbatch");
}

void MicrobatchLimits::add_to(Fingerprint& hash, const PlanOptions& options) {
  // The first one was always part of the hash, the others only where they are given.
  hash.add(options.microbatch_memory);
  for (const Option& option : all_options()) {
    if (option.measure == Measure::kTensorBytes || options.*option.value == 0) continue;
    hash.add(std::string_view(option.name));
    hash.add(options.*option.value);
  }
}

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
  for (const Option& option : all_options()) {
    const std::int64_t cap = options.*option.value;
    if (cap > 0) limits.limits_.push_back({option.measure, option.name, option.unit, cap});
  }
  return limits;
}

MicrobatchLimits MicrobatchLimits::without(const Load& load) const {
  MicrobatchLimits less = *this;
  for (Limit& limit : less.limits_) {
    limit.cap = std::max<std::int64_t>(1, limit.cap - size(load, limit.measure));
  }
  return less;
}

std::vector<Resource> MicrobatchLimits::resources() const {
  std::vector<Resource> resources;
  resources.reserve(limits_.size());
  for (const Limit& limit : limits_) resources.push_back({limit.unit, limit.cap});
  return resources;
}

std::int64_t MicrobatchLimits::units(const Load& load, CostModule module) const {
  const std::int64_t units = load[module].units;
  if (module != CostModule::kLlm) return units;
  // The sum of several padded samples is such a multiple already.
  return (units + padded_multiple_ - 1) / padded_multiple_ * padded_multiple_;
}

std::int64_t MicrobatchLimits::size(const Load& load, Measure measure) const {
  switch (measure) {
    case Measure::kTokens:
      return units(load, CostModule::kLlm);
    case Measure::kVisionTokens:
      return load[CostModule::kVision].units;
    case Measure::kTensorBytes:
      return load.tensor_bytes;
    case Measure::kMemory:
      break;
  }
  auto bytes = static_cast<double>(load.tensor_bytes);
  for (std::size_t m = 0; m < kModules; ++m) {
    const std::int64_t held = units(load, static_cast<CostModule>(m));
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

std::int64_t MicrobatchLimits::least_microbatches(const std::vector<Load>& loads) const {
  std::int64_t least = 0;
  for (const Limit& limit : limits_) {
    std::int64_t sum = 0;
    std::int64_t alone = 0;
    for (const Load& load : loads) {
      const std::int64_t taken = std::min(size(load, limit.measure), limit.cap);
      sum += taken;
      alone += taken > limit.cap / 2 ? 1 : 0;
    }
    least = std::max({least, (sum + limit.cap - 1) / limit.cap, alone});
  }
  return least;
}

const MicrobatchLimits::Limit* MicrobatchLimits::broken(const Load& load) const {
  const auto found = std::find_if(limits_.begin(), limits_.end(), [&](const Limit& limit) {
    return size(load, limit.measure) > limit.cap;
  });
  return found == limits_.end() ? nullptr : &*found;
}

std::optional<std::string> MicrobatchLimits::why_too_large(const Load& load) const {
  const Limit* const limit = broken(load);
  if (limit == nullptr) return std::nullopt;
  return fmt::format("has {} {}, and {} allows {} in a microbatch: {}",
                     grouped(size(load, limit->measure)), limit->unit, limit->option,
                     grouped(limit->cap), remedy(*limit, "raise it"));
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
  // Finds the limit that the samples use the most of.
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

MicrobatchRoom::MicrobatchRoom(const MicrobatchLimits& limits) : limits_(limits) {
  for (const MicrobatchLimits::Limit& limit : limits.limits_) left_.push_back(limit.cap);
}

bool MicrobatchRoom::add(const Load& load) {
  for (std::size_t i = 0; i < left_.size(); ++i) {
    const MicrobatchLimits::Limit& limit = limits_.limits_[i];
    const std::int64_t taken = std::min(limits_.size(load, limit.measure), limit.cap);
    if (taken > left_[i]) return false;
    left_[i] -= taken;
  }
  return true;
}

}  // namespace isocost
