#pragma once

#include <cstdint>

#include "base/units.h"

namespace isocost::cli {

/// Returns bytes as GiB, for tables and JSON.
inline double gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}

}  // namespace isocost::cli
