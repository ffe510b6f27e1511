#pragma once

#include <c10/core/ScalarType.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "balancer/layout/layout.h"
#include "balancer/layout/place.h"
#include "examples/multimodal_trainer/model.h"

namespace isocost {

/// The options of pipeline_trainer. The processes that it forks have a part of their own.
struct Options {
  std::filesystem::path data;     ///< Directory of the shards.
  std::filesystem::path profile;  ///< Model profile for the node; empty: its stated default.
  std::size_t encoder_dp = 1;
  std::size_t llm_dp = 1;
  std::size_t llm_stages = 2;
  std::size_t microbatches = 4;  ///< Per LLM replica and step.
  std::int64_t global_batch_size = 16;
  std::uint32_t steps = 3;
  std::uint64_t seed = 0;  ///< Seed of the sample order and of the first weights.
  double learning_rate = 0.05;
  c10::ScalarType dtype = c10::kFloat;
  bool coupled = false;  ///< Encoder microbatches hold the same samples as the LLM's.
  bool check_gradient = false;
  std::string json;                  ///< File; "-": standard output; empty: none.
  std::filesystem::path checkpoint;  ///< Folder of saved states; empty: nothing is saved.
  bool resume = false;
  std::chrono::seconds peer_timeout{60};
  ModelOptions model = {.vision_width = 32,
                        .vision_depth = 2,
                        .audio_width = 32,
                        .audio_depth = 2,
                        .llm_width = 64,
                        .llm_depth = 4,
                        .head_width = 64};

  // Found by the first process.
  std::filesystem::path directory;  ///< For files that the processes leave for each other.
  std::uint32_t start_step = 0;
  // Options of a forked process:
  std::string role;  ///< A receiver of the layout, or kReference.
  std::string endpoint;

  Layout layout() const;
};

/// The role of the process that computes the whole model on whole global batches.
inline constexpr const char* kReference = "reference";

/// The result of reading the command line. `ended` is true after --help or a mistake; then `status`
/// is the exit status.
struct Parsed {
  Options options;
  bool ended = false;
  int status = 0;
};
Parsed parse_options(int argc, char** argv);

}  // namespace isocost
