#include "transport/wire/row_offsets.h"

#include <algorithm>

#include "transport/wire/wire.h"

namespace isocost {

Result<RowOffsets> row_offsets(const MicrobatchHeader& header, std::size_t tensor) {
  const std::size_t samples = header.samples.size();
  const std::size_t tensors = header.tensors.size();
  if (header.rows.size() != samples * tensors) {
    return Error(ErrorCode::kCorrupt, "number of rows missing for a sample and tensor");
  }
  const TensorSpec& spec = header.tensors[tensor];
  RowOffsets offsets;
  offsets.first_row.reserve(samples + 1);
  offsets.first_row.push_back(0);
  for (std::size_t s = 0; s < samples; ++s) {
    offsets.first_row.push_back(offsets.first_row.back() + header.rows[s * tensors + tensor]);
  }
  const std::int64_t rows = offsets.first_row.back();
  if (rows != spec.shape.front()) {
    return Error(ErrorCode::kCorrupt, spec.name + ": rows of its samples do not add up to its own");
  }
  ISOCOST_ASSIGN(const std::int64_t bytes, tensor_bytes(spec));
  offsets.row_bytes = rows > 0 ? bytes / rows : 0;
  return offsets;
}

bool is_part_of(const TensorSpec& whole, DType dtype, const std::vector<std::int64_t>& shape,
                std::int64_t rows) {
  return dtype == whole.dtype && shape.size() == whole.shape.size() && shape.front() == rows &&
         std::equal(whole.shape.begin() + 1, whole.shape.end(), shape.begin() + 1);
}

}  // namespace isocost
