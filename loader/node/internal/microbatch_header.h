#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "loader/node/internal/sealed_step.h"
#include "transport/messages.h"

namespace isocost {

/// Whether a receiver computes on this tensor (see Recipe): without a layout every rank on all;
/// else media where they are embedded, tokens and positions where these are, labels where they are
/// predicted, and lengths on every stage of their module.
bool consumes(const StepPlan& plan, std::size_t receiver, std::string_view tensor);

/// What announces a planned microbatch to its receiver.
MicrobatchHeader header_of(const SealedStep& step, std::size_t receiver, std::uint32_t microbatch);

/// Those of a sample's tensors that the receiver consumes; they share their memory with `tensors`.
std::vector<NamedTensor> consumed(const StepPlan& plan, std::size_t receiver,
                                  std::span<const NamedTensor> tensors);

}  // namespace isocost
