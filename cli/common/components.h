#pragma once

#include <string>

namespace isocost::cli {

/// Returns a line for each library that the program runs with, the last one without an end: its
/// name, and the version that it tells at run time, or that it was compiled with where it tells
/// none.
std::string components();

}  // namespace isocost::cli
