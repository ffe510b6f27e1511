#include "trainer_adapter/sample_rows.h"

#include <algorithm>
#include <string>

#include "base/result.h"
#include "base/tensor_schema.h"

namespace isocost {

SampleRows sample_rows(const MicrobatchHeader& header, std::string_view name, std::size_t sample) {
  check_tensor_name(name);
  const TensorEntry* entry = find_argument(name);
  // Loss weights are computed here, one for each label.
  if (entry->role == TensorRole::kLossWeights) {
    entry = find_tensor(entry->module, TensorRole::kLabels);
  }
  if (sample >= header.samples.size()) {
    throw_exception(Error(ErrorCode::kInvalidArgument,
                          "sample " + std::to_string(sample) + " of a microbatch of " +
                              std::to_string(header.samples.size()) + " samples"));
  }
  const auto spec =
      std::find_if(header.tensors.begin(), header.tensors.end(),
                   [entry](const TensorSpec& tensor) { return tensor.name == entry->name; });
  if (spec == header.tensors.end()) {
    throw_exception(Error(ErrorCode::kInvalidArgument,
                          "this microbatch has no rows of samples in " + std::string(name)));
  }
  SampleRows rows;
  auto at = static_cast<std::size_t>(spec - header.tensors.begin());
  for (std::size_t s = 0; s <= sample; ++s, at += header.tensors.size()) {
    rows.first += rows.count;
    rows.count = header.rows.at(at);
  }
  return rows;
}

}  // namespace isocost
