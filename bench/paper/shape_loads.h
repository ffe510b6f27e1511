#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace isocost::paper {

/// Computes the loads of samples by Isocost's own recipes, from shapes alone. `request` has
/// `recipes`, a list of recipes' descriptions, and `samples`: each has the index of its `recipe`,
/// its text's `tokens`, and `parts`, each an image or video of `width` x `height`, or a sound, of
/// `seconds`. Returns a data profile, as `isocost data profile --json` prints it. Errors: those of
/// Recipe.
Result<nlohmann::ordered_json> data_profile_of_shapes(const nlohmann::json& request);

}  // namespace isocost::paper
