#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "loader/dataset/data_source.h"
#include "loader/plan/mixture/mixture_description.h"

namespace isocost {

/// Data as a user names it.
struct NamedData {
  DataSources sources;
  std::optional<MixtureDescription> mixture;  ///< How they are mixed; nothing: one data set.
};

/// Returns the sources of a data text: those of a mixture file (docs/data.md), or else the text
/// itself. `reading` is the node's; a source may override it. Looks at no data. Errors: those of
/// read_mixture_file and of the mixture's data_sources.
Result<NamedData> read_data(const std::string& text, const ReadingOptions& reading);

}  // namespace isocost
