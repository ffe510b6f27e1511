#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "decode/bytes/media_bytes.h"
#include "decode/image/image_decoder.h"
#include "decode/shape/recipe_options.h"

namespace isocost {

/// Returns the most bytes that deflate can make of `deflated` bytes: 258 bytes from two bits. A
/// picture that needs more than its whole file can make is refused before memory is allocated for
/// it.
constexpr std::size_t most_inflated_bytes(std::size_t deflated) { return 1032 * deflated; }

/// Decodes a PNG of the usual kind: 8 bits a channel or palette index, not interlaced, without a
/// colour key, and without a fault in its pixels. Returns nothing for every other file, which
/// libspng must decode or refuse; the pixels that it returns are libspng's. Computes on the calling
/// thread.
///
/// libspng itself reads palette and transparency, from a file with one black pixel. The Adler-32 of
/// the pixels must be right, and they must inflate to exactly the bytes that the header promises.
std::optional<Pixels> decode_plain_png(ByteView file, std::int32_t width, std::int32_t height,
                                       Alpha alpha);

}  // namespace isocost
