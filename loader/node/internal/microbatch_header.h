#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "loader/node/internal/sealed_step.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Returns the header that announces a planned microbatch to its receiver, with what it needs: keys
/// for every receiver, parts for those that embed media or tokens, JSON for those that embed tokens
/// or predict labels.
MicrobatchHeader header_of(const SealedStep& step, std::size_t receiver, std::uint32_t microbatch);

/// Returns the tensors that the receiver consumes: with a layout those that its stage reads
/// (TensorEntry::reader), without one all of them. The returned tensors share the memory of
/// `tensors`.
std::vector<NamedTensor> consumed(const StepPlan& plan, std::size_t receiver,
                                  std::span<const NamedTensor> tensors);

}  // namespace isocost
