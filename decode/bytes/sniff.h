#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// Returns the format whose marks stand in a file's first bytes (512 suffice); nothing if they are
/// no format's marks. Text has none.
std::optional<MediaFormat> sniff(ByteView head);

/// Returns the format of a medium by its first bytes; `claimed` is that of its name, which decides
/// where the bytes do not. Errors: kCorrupt for bytes of a format that is not read, which is named,
/// and of none.
Result<MediaFormat> format_by_content(ByteView head, MediaFormat claimed);

/// Checks a text that is not UTF-8. Errors: kCorrupt where its bytes begin as another format, which
/// is named.
Status check_is_text(ByteView head, MediaFormat claimed);

}  // namespace isocost
