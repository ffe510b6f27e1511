#pragma once

#include <cstdint>

#include "loader/sealed_step.h"
#include "transport/messages.h"

namespace isocost {

/// What announces a planned microbatch to its rank.
MicrobatchHeader header_of(const SealedStep& step, std::int32_t rank, std::uint32_t microbatch);

}  // namespace isocost
