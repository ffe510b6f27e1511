#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// Returns the format whose marks stand in a file's first bytes (64 suffice); nothing if they are
/// no format's marks. Text has none.
std::optional<MediaFormat> sniff(ByteView head);

/// Checks that the bytes begin with the marks of the format that the name claims. Errors: kCorrupt
/// where they are another format's, or none's.
Status check_marks(ByteView head, MediaFormat claimed);

}  // namespace isocost
