#include "loader/dataset/formats/metadataset.h"

#include <fmt/format.h>

#include "loader/dataset/formats/internal/energon_metadataset.h"
#include "loader/dataset/formats/internal/meta_value.h"

namespace isocost {

std::optional<std::string> why_no_metadataset(std::string_view text, std::string_view split) {
  const auto document = parse_meta_yaml(text);
  if (!document || !is_energon_metadataset(*document)) return std::nullopt;
  const auto mixture = mixture_of_metadataset(*document, split);
  if (!mixture) {
    return fmt::format("a metadataset of Energon, which is not read; {}",
                       mixture.error().message());
  }
  return fmt::format(
      "a metadataset of Energon, which is not read; this mixture means the same as its split "
      "'{}':\n\n{}",
      split, *mixture);
}

}  // namespace isocost
