#pragma once

#include <cstdint>
#include <string>

#include "costmodel/cost_model.h"

namespace isocost {

/// What a node did, for people and for checks.
struct NodeSummary {
  std::uint64_t epochs = 0;
  std::uint64_t steps = 0;
  std::uint64_t delivered = 0;  ///< Samples planned for delivery, repeats left out.
  std::uint64_t bad = 0;        ///< Found bad, by indexing or decoding.
  std::uint64_t replaced = 0;
  std::uint64_t repeats = 0;  ///< Zero-weight places.
  std::uint64_t dropped = 0;  ///< Tail samples dropped.
  std::uint64_t decoded_again =
      0;  ///< Samples decoded twice because memory was short or a client came back.
  double plan_seconds_mean = 0;
  double gap_mean = 0;  ///< Plan's makespan over its lower bound, less 1.
  std::int64_t memory_peak_bytes = 0;
  std::int64_t measurements = 0;
  std::int64_t reports_rejected = 0;
  std::uint32_t reprofiles = 0;  ///< Profiles that a trainer measured again, adopted.
  ModuleSeconds mape{};          ///< NaN where nothing was measured.

  std::string to_json() const;
};

}  // namespace isocost
