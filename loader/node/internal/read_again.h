#pragma once

#include <cstddef>
#include <cstdint>

#include "loader/node/decoding/step_decoder.h"
#include "loader/node/internal/sealed_step.h"

namespace isocost {

/// A sample of a receiver in a step.
struct PlaceInStep {
  std::size_t receiver = 0;
  std::uint32_t microbatch = 0;
  std::uint32_t index = 0;
};

/// Begins to read the samples on servers that are decoded again, in the order in which a receiver
/// gets them, from a place of a step on and in `following` (null: it is not known): up to 128
/// samples ahead for all receivers together, since they share one room, in which none may take that
/// of the others. Does not block. Belongs to the thread that the steps belong to.
void read_again_from(const PlaceInStep& place, SealedStep& step, SealedStep* following,
                     const StepDecoder& decoder);

}  // namespace isocost
