#include "loader/node/decoding/internal/decode_admission.h"

#include <cstdint>
#include <optional>
#include <stop_token>

namespace isocost {

Result<MemoryBudget::Grant> DecodeAdmission::acquire(SampleId id,
                                                     const std::stop_token& stop) const {
  ISOCOST_ASSIGN(const SampleShape shape, dataset_.checked_shape(id));
  ISOCOST_ASSIGN(const std::int64_t bytes, recipe_.working_set_bytes(shape));
  return budget_.acquire(bytes, stop);
}

std::optional<MemoryBudget::Grant> DecodeAdmission::try_acquire_ahead(SampleId id) const {
  const auto needed = recipe_.working_set_bytes(dataset_.shape(id));
  if (!needed) return std::nullopt;
  // Within the bytes of the samples that wait, which it will join: the others are for those that
  // are needed now. A quarter of them is left for blocks of shared memory, which would otherwise
  // find none.
  return budget_.try_acquire(*needed, waiting_bytes_ / 4 * 3);
}

}  // namespace isocost
