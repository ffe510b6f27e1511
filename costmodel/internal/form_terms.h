#pragma once

#include "base/load.h"
#include "costmodel/internal/nnls.h"

namespace isocost {

/// Returns what a module's form multiplies its weights by: one for the fixed seconds, sequences,
/// units and squared units.
inline TermVector terms_of(const ModuleLoad& load) {
  return {1, static_cast<double>(load.sequences), static_cast<double>(load.units),
          static_cast<double>(load.units_squared)};
}

}  // namespace isocost
