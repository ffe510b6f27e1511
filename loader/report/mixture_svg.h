#pragma once

#include <string>

#include "loader/plan/mixture/mixture_course.h"

namespace isocost {

/// Returns a picture of what the sources of a mixture give, as a self-contained SVG file: above
/// their shares of the samples by position, below how often each source has been read.
std::string draw_mixture(const MixtureCourse& course, const std::string& title);

}  // namespace isocost
