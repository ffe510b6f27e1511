#pragma once

#include <string>

#include "decode/shape/tokens.h"

namespace isocost {

struct TokenizedSample {
  Tokens tokens;       ///< With a placeholder for each of the sample's media.
  std::string reason;  ///< Reason why it has no tokens; empty: it has some.
};

}  // namespace isocost
