#pragma once

#include <functional>

#include "base/load.h"
#include "base/result.h"
#include "loader/dataset/dataset.h"

namespace isocost {

/// Returns the load of a sample, in place of the recipe's `load`, before its step is planned. Meant
/// for trainers that tokenise themselves and know other lengths. Called on the planning thread, up
/// to `plan_ahead` steps before the sample's step: once for a sample of a step, and again where the
/// sample was begun for a step that was then dropped. An error ends training.
using LoadHook = std::function<Result<Load>(SampleId id, const Dataset& dataset, const Load& load)>;

}  // namespace isocost
