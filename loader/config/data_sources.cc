#include "loader/config/data_sources.h"

#include <utility>

#include "loader/config/internal/mixture_file.h"

namespace isocost {

Result<NamedData> read_data(const std::string& text, const ReadingOptions& reading) {
  if (!names_mixture(text)) return NamedData{DataSources::of_text(text, reading), std::nullopt};
  ISOCOST_ASSIGN(MixtureDescription mixture, read_mixture_file(text));
  ISOCOST_ASSIGN(DataSources sources, data_sources(mixture, text, reading));
  return NamedData{std::move(sources), std::move(mixture)};
}

}  // namespace isocost
