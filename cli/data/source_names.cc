#include "cli/data/source_names.h"

#include <algorithm>
#include <string>
#include <vector>

namespace isocost::cli {

bool has_sources(const Dataset& dataset) { return !dataset.sources().front().name.empty(); }

// A shard's name begins with its source's, which holds no slash.
std::size_t source_of_shard(const Dataset& dataset, std::string_view shard) {
  if (!has_sources(dataset)) return 0;
  const std::string_view name = shard.substr(0, shard.find('/'));
  const auto& sources = dataset.sources();
  const auto found = std::ranges::find(sources, name, &DatasetSource::name);
  return found == sources.end() ? 0 : static_cast<std::size_t>(found - sources.begin());
}

}  // namespace isocost::cli
