#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "examples/pipeline_trainer/options.h"

namespace isocost {

/// Kinds of stages, by what they consume.
inline constexpr std::array<const char*, 4> kStageKinds = {"encoder", "llm_first", "llm_middle",
                                                           "llm_last"};

/// The results of a run, over all its processes.
struct Outcome {
  std::optional<double> gradient_relative_error;  ///< Maximum over steps.
  std::array<std::int64_t, 4> bytes{};  ///< Bytes of tensors from the node, by kStageKinds.
  std::uint64_t delivered = 0;          ///< Samples that reached every stage that needs them.
  std::uint64_t lost = 0;               ///< Planned by the node but not delivered.
  std::uint64_t duplicated = 0;
  double bubble_fraction = 0;
  std::int64_t routing_bytes = 0;
  std::int64_t decoupled_microbatches = 0;  ///< Those with routes to several of the other module.
  double data_wait_fraction = 0;            ///< Part of the steps' time spent waiting for data.
  double step_seconds = 0;                  ///< Median over steps of the slowest stage's time.

  std::string to_json() const;
  std::string to_table() const;
};

/// Reads the results that the processes wrote. Errors: kCorrupt for a file that is missing or
/// broken.
Result<Outcome> read_outcome(const Options& options);

}  // namespace isocost
