#pragma once

#include <cstdint>
#include <optional>

#include "costmodel/profile.h"

namespace isocost {

/// Returns the seconds of one of `tensor` ranks, communication included, relative to the seconds of
/// the whole module on one rank: the median over large loads that were measured both ways. Returns
/// 1 for one rank, and nothing if the profile has no such measurement.
std::optional<double> tensor_share(const ModuleProfile& profile, std::int64_t tensor);

/// Returns the work of a module outside its layers (embeddings, output head) as a number of layers:
/// by seconds, the median over large loads that were also measured with fewer layers; by FLOP
/// (Architecture::head_layers) if the profile has no such measurement; 0 without an architecture.
double work_outside_layers(const ModuleProfile& profile);

}  // namespace isocost
