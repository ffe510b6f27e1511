#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// A medium whose bytes a record holds.
struct EmbeddedMedium {
  std::string bytes;
  std::string extension;  ///< The extension of a part with these bytes, by their content.
};

/// Returns the medium of a "data:" URL, in base64 or in escapes of URLs, or nothing for other
/// texts. Errors: kCorrupt, as a predicate, for text that cannot be decoded, and for bytes of no
/// format that is read; what the URL says of the format counts only where the bytes have no marks.
Result<std::optional<EmbeddedMedium>> medium_of_url(std::string_view text);

/// Decodes a medium from a text in base64. `format` is what the record says of its bytes.
/// Errors: those of medium_of_url.
Result<EmbeddedMedium> medium_of_base64(std::string_view text, std::string_view format);

/// Returns the medium where a text is base64 of bytes that begin as a medium; nothing otherwise.
std::optional<EmbeddedMedium> medium_if_base64(std::string_view text);

}  // namespace isocost
