#pragma once

#include <cstdint>

#include "loader/dataset/stores/remote/request_sender.h"

namespace isocost {

/// Totals of an object store since it was made.
struct StoreCounts {
  RequestCounts sent;
  std::int64_t credential_renewals = 0;
};

}  // namespace isocost
