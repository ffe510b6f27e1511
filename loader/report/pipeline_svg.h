#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "balancer/pipeline/simulator.h"

namespace isocost {

/// A step to draw.
struct PipelinePicture {
  std::string title;
  PipelineReport report;
  std::optional<std::uint32_t> llm_replica = {};  ///< The replica to draw; none: the last to end.
};

/// Returns the LLM replica that ends last.
std::uint32_t last_llm_replica(const PipelineReport& report);

/// Returns one picture of several steps, one below the other on a common time scale, as a
/// self-contained SVG file. A step has a row for each stage of one LLM replica and of the encoder
/// replica, with a box for each pass and for the reduction of gradients, and a time axis.
/// If every replica is a single stage, there is a row for each replica. Only the first `rows`
/// stages are drawn; a note gives the number of the others. If no step has stages, a sentence says
/// so.
std::string draw_pipelines(const std::vector<PipelinePicture>& pictures, std::size_t rows = 16);

}  // namespace isocost
