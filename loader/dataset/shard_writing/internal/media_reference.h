#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/sample_part.h"
#include "loader/dataset/shard_writing/internal/sample_input.h"

namespace isocost {

/// A media file as a record names it.
struct MediaReference {
  std::optional<Modality> modality;  ///< Nothing: the file's extension decides.
  std::string name;                  ///< A path, or a file:// URL.
};

/// Returns the part of medium `index` of its sample, named "000.jpg" or "001.png", with the file's
/// extension. A relative path starts at `root` and must not leave it by "..". Errors: kCorrupt for
/// a URL, base64 data, a path that no file can have, and an extension that is not one of media.
Result<InputPart> media_part(const MediaReference& reference, std::size_t index,
                             const std::filesystem::path& root);

/// Returns the file of a manifest's part; ".." may leave `root`. Errors: kCorrupt for a path that
/// no file can have.
Result<std::filesystem::path> file_of_part(const std::string& name,
                                           const std::filesystem::path& root);

}  // namespace isocost
