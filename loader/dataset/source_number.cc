#include "loader/dataset/source_number.h"

#include <algorithm>
#include <vector>

namespace isocost {

// The last source that begins at the sample or before it: one without samples begins where the next
// one does.
std::size_t source_number(const Dataset& dataset, SampleId id) {
  const std::vector<DatasetSource>& sources = dataset.sources();
  const auto after = std::upper_bound(
      sources.begin(), sources.end(), id,
      [](SampleId sample, const DatasetSource& source) { return sample < source.first; });
  return static_cast<std::size_t>(after - sources.begin()) - 1;
}

}  // namespace isocost
