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

/// Whether a receiver reads the tensor of this name: TensorEntry::reader with a layout; without one
/// every rank reads every tensor.
bool consumes(const StepPlan& plan, std::size_t receiver, std::string_view name);

/// The header that announces a planned microbatch to its receiver, with what it needs: keys for
/// every receiver, parts for those that embed media or tokens, JSON for those that embed tokens or
/// predict labels.
MicrobatchHeader header_of(const SealedStep& step, std::size_t receiver, std::uint32_t microbatch);

/// The tensors among `tensors` that the receiver consumes. They share their memory.
std::vector<NamedTensor> consumed(const StepPlan& plan, std::size_t receiver,
                                  std::span<const NamedTensor> tensors);

}  // namespace isocost
