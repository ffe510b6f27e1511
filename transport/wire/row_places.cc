#include "transport/wire/row_places.h"

#include <algorithm>

#include "transport/wire/wire.h"

namespace isocost {

Result<RowPlaces> row_places(const MicrobatchHeader& header, std::size_t tensor) {
  const std::size_t samples = header.samples.size();
  const std::size_t tensors = header.tensors.size();
  if (header.rows.size() != samples * tensors) {
    return Error(ErrorCode::kCorrupt, "number of rows missing for a sample and tensor");
  }
  const TensorSpec& spec = header.tensors[tensor];
  RowPlaces places;
  places.first_row.reserve(samples + 1);
  places.first_row.push_back(0);
  for (std::size_t s = 0; s < samples; ++s) {
    places.first_row.push_back(places.first_row.back() + header.rows[s * tensors + tensor]);
  }
  const std::int64_t rows = places.first_row.back();
  if (rows != spec.shape.front()) {
    return Error(ErrorCode::kCorrupt, spec.name + ": rows of its samples do not add up to its own");
  }
  ISOCOST_ASSIGN(const std::int64_t bytes, tensor_bytes(spec));
  places.row_bytes = rows > 0 ? bytes / rows : 0;
  return places;
}

bool is_part_of(const TensorSpec& whole, DType dtype, const std::vector<std::int64_t>& shape,
                std::int64_t rows) {
  return dtype == whole.dtype && shape.size() == whole.shape.size() && shape.front() == rows &&
         std::equal(whole.shape.begin() + 1, whole.shape.end(), shape.begin() + 1);
}

}  // namespace isocost
