#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/byte_source.h"

namespace isocost {

/// Returns why a file is no tar, by its first bytes, and what to do: "not a tar file (it is a ZIP
/// archive); pack ...". `detail` is what the reader of tar files says, for bytes of no known
/// format.
std::string why_no_tar(const ByteSource& source, std::string_view detail);

/// Returns why a file that begins with these bytes (512 suffice) holds no records of JSON, and what
/// to do: "it is compressed by xz; unpack it, ...". Returns nothing for bytes of no known format.
std::optional<std::string> why_no_records(std::string_view begin);

}  // namespace isocost
