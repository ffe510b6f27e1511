#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "loader/plan/mixture/mixture.h"

namespace isocost {

/// Most bytes of a mixture in a saved state.
inline constexpr std::size_t kMostSavedMixtureBytes = std::size_t{64} << 10;

/// Returns a mixture as JSON, for a saved state. Options without sources are those of one data set
/// with `skip_steps`. Errors: kResourceExhausted if it exceeds kMostSavedMixtureBytes.
Result<std::string> mixture_json(const MixtureOptions& options);

/// Reads what `mixture_json` wrote, also from a hostile file. Whether a mixture can be made of it
/// is checked by Mixture::create. Errors: kCorrupt, or kUnsupported for another version, that name
/// the key.
Result<MixtureOptions> mixture_from_json(std::string_view json);

}  // namespace isocost
