#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "loader/plan/plan_options.h"

namespace isocost {

/// A step of a job under one policy.
struct PolicyStep {
  double step_s = 0;
  double idle_share = 0;  ///< Share of the ranks' time in which they wait for others.
  bool fits = true;       ///< Whether the policy's plans fit the memory.
};

/// The savings of balancing on a job that trains all week.
struct Savings {
  static constexpr double kHoursAWeek = 168;

  std::array<PolicyStep, kBalancePolicyNames.size()> policies =
      {};  ///< In the order of enumerators.
  std::int64_t gpus = 1;
  std::optional<double> price_per_gpu_hour;

  const PolicyStep& of(BalancePolicy policy) const {
    return policies.at(static_cast<std::size_t>(policy));
  }
  /// Returns the share of the step under policy in-order that this policy saves.
  double share(BalancePolicy policy) const;
  /// Return the GPU-hours of a week, and what they cost, that policy in-order takes longer for the
  /// same steps. Nothing without a price.
  double gpu_hours(BalancePolicy policy) const;
  std::optional<double> money(BalancePolicy policy) const;
};

/// Mean bytes of a sample.
struct SampleBytes {
  std::optional<double> encoded = {};  ///< Bytes in the data set; nothing if not known.
  double tensors = 0;                  ///< Bytes that a node sends.
};

/// The needs of a loader for a job.
struct LoaderNeeds {
  /// Steps whose samples a node holds decoded: the default of plan_ahead, and the one under way.
  static constexpr double kStepsHeld = 3;

  double samples_per_s = 0;
  std::optional<double> read_bytes_per_s;
  double sent_bytes_per_s = 0;
  /// The least setting `memory`: decoded samples may hold half of it (StepDecoder).
  double memory_bytes = 0;
  /// Busy cores of the node's host; nothing unless the seconds of a sample were measured.
  std::optional<double> cores;
};

/// Returns the needs at a rate of samples. `cpu_s_per_sample`: measured on the loader's kind of
/// host, reading and sending included.
LoaderNeeds loader_needs(const SampleBytes& bytes, std::int64_t global_batch_size, double step_s,
                         std::optional<double> cpu_s_per_sample);

/// Return lines for a terminal, each with its end: steps by policy; what a week saves; the needs.
std::string policies_text(const Savings& savings);
std::string week_text(const Savings& savings);
std::string needs_text(const LoaderNeeds& needs);
/// Return JSON objects.
std::string savings_json(const Savings& savings);
std::string needs_json(const LoaderNeeds& needs);
/// Returns sections of an HTML page (see html_page.h). `basis` says how the seconds were found.
std::string savings_html(const Savings& savings, const std::optional<LoaderNeeds>& needs,
                         const std::string& basis);

}  // namespace isocost
