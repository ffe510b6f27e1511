#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "balancer/pipeline.h"

namespace isocost {

/// A step to draw: a title and what ran.
struct PipelinePicture {
  std::string title;
  PipelineReport report;
};

/// One picture of several steps on one time axis, below each other: a row a stage, of the LLM
/// replica that ends last and of the encoder replicas beside it (at most `rows` rows a step), a box
/// a pass. Self-contained SVG.
std::string draw_pipelines(const std::vector<PipelinePicture>& pictures, std::size_t rows = 16);

}  // namespace isocost
