#pragma once

#include <vector>

#include "base/json_object.h"
#include "base/load.h"
#include "base/result.h"
#include "costmodel/profile.h"

namespace isocost {

/// Parses a load. Errors: kCorrupt for a field that is missing, out of range or inconsistent with
/// the others.
Result<ModuleLoad> parse_load(const JsonObject& object);

/// Parses the `points` of `owner`. Errors: kCorrupt, naming the field, or the points that
/// contradict each other.
Result<std::vector<ProfilePoint>> parse_points(const JsonObject& owner);

}  // namespace isocost
