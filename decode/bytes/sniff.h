#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/media_formats.h"

namespace isocost {

/// Returns the format whose marks stand in a file's first bytes (512 suffice); nothing if they are
/// no format's marks. Text has none.
std::optional<MediaFormat> sniff(ByteView head);

/// Returns the format of a medium by its first bytes; `claimed` is that of its name, if it is one
/// that is read, and decides where the bytes do not. Errors: kCorrupt for bytes of a format that is
/// not read, which is named, and of none.
Result<MediaFormat> format_by_content(ByteView head, std::optional<MediaFormat> claimed,
                                      std::string_view part_name);

/// Checks a text that is not UTF-8, or has a zero byte. Errors: kCorrupt if its bytes begin as
/// another format or encoding, which is named.
Status check_is_text(ByteView head, MediaFormat claimed);

}  // namespace isocost
