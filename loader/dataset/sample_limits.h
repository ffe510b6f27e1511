#pragma once

#include <cstdint>

#include "base/result.h"
#include "decode/recipe.h"

namespace isocost {

/// What decoding one sample may take of `memory` (NodeOptions::memory) bytes: half. The other half
/// may hold decoded samples that wait for their ranks.
constexpr std::int64_t decoding_share(std::int64_t memory) { return memory / 2; }

/// Whether the recipe takes a sample of this shape, within that share. Returns the bytes that
/// decoding it needs. Errors: those of Recipe::working_set_bytes, kResourceExhausted.
Result<std::int64_t> decoding_bytes(const Recipe& recipe, const SampleShape& shape,
                                    std::int64_t memory);

}  // namespace isocost
