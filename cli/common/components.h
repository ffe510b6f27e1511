#pragma once

#include <string>

namespace isocost::cli {

/// Returns a line for each library that the program runs with, the last one without an end: its
/// name, and the version that it reports at run time, or that it was compiled with if it reports
/// none.
std::string components();

}  // namespace isocost::cli
