#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/load.h"
#include "base/memory_budget.h"
#include "base/sample_part.h"
#include "base/tensor.h"
#include "loader/dataset/dataset.h"
#include "loader/node/decoding/internal/sample_read.h"
#include "transport/wire/messages.h"

namespace isocost {

/// A decoded sample: its tensors, and the memory granted for them, which is returned when the last
/// reference is gone.
struct DecodedSample {
  MemoryBudget::Grant grant;
  std::vector<NamedTensor> tensors;
};

/// One sample of a sealed step. Its tensors are kept if memory allowed; otherwise the sample is
/// decoded again when it is sent.
struct StepSample {
  SampleId id = 0;
  Load load;
  float weight = 1.0F;
  std::string key;                ///< "shard/key".
  std::string json;               ///< See SampleEntry::json.
  std::vector<SamplePart> parts;  ///< Each part as the recipe describes it.
  std::vector<TensorSpec> specs;  ///< Names, dtypes and shapes of its tensors.
  std::shared_ptr<const DecodedSample> decoded;
  /// Bytes from a server, for a sample that is decoded again; null: they are read again, too.
  std::shared_ptr<SampleRead> read = nullptr;
  std::uint32_t readers = 0;  ///< Times that it is still to be sent; then it is released.
};

/// Returns the names, dtypes and shapes of tensors.
std::vector<TensorSpec> specs_of(std::span<const NamedTensor> tensors);

}  // namespace isocost
