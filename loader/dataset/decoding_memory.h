#pragma once

#include <cstdint>

#include "base/result.h"
#include "decode/recipe.h"

namespace isocost {

/// Returns the bytes that decoding one sample may use: half of `memory` (DecodeOptions::memory).
/// The other half is for decoded samples that wait for their ranks.
constexpr std::int64_t decoding_share(std::int64_t memory) { return memory / 2; }

/// Checks that the recipe accepts a sample of this shape and can decode it within that limit.
/// Returns the bytes that decoding needs. Errors: those of Recipe::working_set_bytes,
/// kResourceExhausted.
Result<std::int64_t> decoding_bytes(const Recipe& recipe, const SampleShape& shape,
                                    std::int64_t memory);

}  // namespace isocost
