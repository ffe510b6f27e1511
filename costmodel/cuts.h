#pragma once

#include <cstdint>
#include <optional>

#include "costmodel/profile.h"

namespace isocost {

/// What one of `tensor` ranks takes of the seconds that the whole module takes on one rank, their
/// communication included: the median over large loads that were measured both ways. Empty where
/// none was. 1 for one rank.
std::optional<double> tensor_share(const ModuleProfile& profile, std::int64_t tensor);

/// What a module does beside its layers (embeddings, output head) as a number of layers, by
/// seconds: the median over large loads that were measured with fewer layers, too. By FLOP
/// (Architecture::head_layers) where none was, 0 without an architecture.
double layers_beside(const ModuleProfile& profile);

}  // namespace isocost
