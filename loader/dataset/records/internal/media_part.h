#pragma once

#include <cstddef>

#include "base/result.h"
#include "loader/dataset/records/internal/media_path.h"
#include "loader/dataset/records/internal/media_reference.h"
#include "loader/dataset/records/sample_input.h"

namespace isocost {

/// Returns the part of medium `index` of its sample, named "000.jpg" or "001.png": a file, with its
/// extension, or the bytes that the record holds. The latter leave the record, which names the part
/// instead. Errors: kCorrupt for bytes that are no medium in base64, those of MediaPaths::find, and
/// an extension that is not one of media.
Result<InputPart> media_part(const MediaReference& reference, std::size_t index, MediaPaths& paths);

}  // namespace isocost
