#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// The format whose marks stand in a file's first bytes (64 will do); nothing where they are of
/// none. Text has no marks.
std::optional<MediaFormat> sniff(ByteView head);

/// kCorrupt where the bytes are of another format than the name claims, or of none.
Status check_marks(ByteView head, MediaFormat claimed);

}  // namespace isocost
