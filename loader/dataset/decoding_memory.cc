#include "loader/dataset/decoding_memory.h"

#include <string>

namespace isocost {

Result<std::int64_t> decoding_bytes(const Recipe& recipe, const SampleShape& shape,
                                    std::int64_t memory) {
  ISOCOST_ASSIGN(const std::int64_t needed, recipe.working_set_bytes(shape));
  if (needed <= decoding_share(memory)) return needed;
  return Error(ErrorCode::kResourceExhausted, "decoding needs " + std::to_string(needed) +
                                                  " bytes, half of the memory budget is " +
                                                  std::to_string(decoding_share(memory)) +
                                                  ": raise memory");
}

}  // namespace isocost
