#pragma once

#include <functional>

#include "base/load.h"
#include "base/result.h"
#include "loader/dataset/dataset.h"

namespace isocost {

/// Has the last word on what a model will see of a sample, before its step is planned: a trainer
/// that tokenises by itself knows other lengths. Called on the planning thread. An error ends
/// training.
using LoadHook = std::function<Result<Load>(SampleId id, const Dataset& dataset, const Load& load)>;

}  // namespace isocost
