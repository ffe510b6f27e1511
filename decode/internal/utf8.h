#pragma once

#include <cstddef>

#include "decode/internal/media_bytes.h"

namespace isocost {

/// Bytes before the first that is no UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing
/// beyond U+10FFFF); all where there is none. A character cut off at the end counts as none.
std::size_t valid_utf8_prefix(ByteView bytes);

}  // namespace isocost
