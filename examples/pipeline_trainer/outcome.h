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

/// What a run gave, over all its processes.
struct Outcome {
  std::optional<double> gradient_relative_error;  ///< The largest of all steps.
  std::array<std::int64_t, 4> bytes{};            ///< Of tensors from the node, by kStageKinds.
  std::uint64_t delivered = 0;  ///< Samples that every stage saw that has to do with them.
  std::uint64_t lost = 0;       ///< Planned by the node and not delivered.
  std::uint64_t duplicated = 0;
  double bubble_fraction = 0;
  std::int64_t routing_bytes = 0;
  std::int64_t decoupled_microbatches = 0;  ///< Of either module, joined to several of the other.
  double data_wait_fraction = 0;            ///< Of the time in steps.
  double step_seconds = 0;                  ///< Median, of the slowest stage in each step.

  std::string to_json() const;
  std::string to_table() const;
};

/// Reads what the processes left. Errors: kNotFound, kCorrupt for a file that is missing or broken.
Result<Outcome> read_outcome(const Options& options);

}  // namespace isocost
