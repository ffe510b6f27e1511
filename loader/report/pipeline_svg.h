#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "balancer/pipeline/simulator.h"

namespace isocost {

/// A step to draw: a title and what ran.
struct PipelinePicture {
  std::string title;
  PipelineReport report;
  std::optional<std::uint32_t> llm_replica = {};  ///< To be drawn; none: the one that ends last.
};

/// The LLM replica that ends last.
std::uint32_t last_llm_replica(const PipelineReport& report);

/// One picture of several steps on one scale, below each other: a row a stage, of the LLM replica
/// that ends last and of the encoder replica beside it, a box a pass and one for the reduction of
/// gradients, a time axis. Where every replica is one stage, a row a replica. Of more than `rows`
/// stages the first are drawn, and a note says how many are not. Self-contained SVG.
std::string draw_pipelines(const std::vector<PipelinePicture>& pictures, std::size_t rows = 16);

}  // namespace isocost
