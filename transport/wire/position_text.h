#pragma once

#include <string>

#include "transport/wire/messages.h"

namespace isocost {

/// Returns "epoch 0, step 3, microbatch 1", for messages.
inline std::string text_of(const Position& position) {
  return "epoch " + std::to_string(position.epoch) + ", step " + std::to_string(position.step) +
         ", microbatch " + std::to_string(position.microbatch);
}

}  // namespace isocost
