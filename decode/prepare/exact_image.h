#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/image/image_decoder.h"
#include "decode/resize/patch_grid.h"
#include "decode/resize/patchify.h"
#include "decode/resize/pillow_resize.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/recipe_options.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// The region of a picture that a model sees: `part` of the resized picture. It may reach beyond
/// the picture, or lie outside of it; that region is black.
struct Framing {
  std::int32_t width = 0;
  std::int32_t height = 0;
  PixelArea part;
};

/// Returns the framing of a picture that is resized to the grid.
Framing whole(PatchGrid grid);

/// Packed RGB of a picture as displayed.
struct PixelView {
  std::span<const std::uint8_t> rgb;
  std::int32_t width = 0;
  std::int32_t height = 0;
};

struct PictureDecoding {
  Exactness exactness = Exactness::kExact;
  Alpha alpha = Alpha::kWhite;
  Truncated truncated = Truncated::kBad;
};

/// Decodes a picture and turns it as it is displayed. kExact decodes it in full, so that resizing
/// rounds the same values as a processor of transformers; kFast, at least as large as `framing` has
/// it. Errors: those of decode_image.
Result<Pixels> displayed_image(const ByteSource& source, const PartShape& shape,
                               const Framing& framing, PictureDecoding decoding,
                               const DecodeLimit& limit);

/// Makes patches whose bytes are those that a processor of transformers passes to its normalisation
/// when it is given `displayed`. The grid is at least as large as the part; its other patches'
/// pixels are black. Errors: those of DecodeLimit::check.
Status framed_patches(const Pixels& displayed, const Framing& framing, PatchGrid grid,
                      ExactResize resize, std::span<std::byte> patches, const DecodeLimit& limit);

/// Makes the patches of one of the frames that share patches.
Status framed_patches(PixelView displayed, const Framing& framing, PatchGrid grid,
                      ExactResize resize, std::span<std::byte> patches, FrameSlot slot,
                      const DecodeLimit& limit);

/// Returns the picture in the middle of a square of `colour`. Errors: kResourceExhausted, for a
/// square of more than kMostSquarePixels.
Result<Pixels> made_square(Pixels displayed, std::array<std::uint8_t, 3> colour);
inline constexpr std::int64_t kMostSquarePixels = std::int64_t{1} << 28;

/// Calls displayed_image and framed_patches for one framing. A JPEG that is stored upright is
/// resized and cut while it is decoded. Errors: kCorrupt (truncated, damaged, another size than the
/// shape's), kUnsupported, kIo, kInvalidArgument if `patches` does not have the grid's size,
/// those of DecodeLimit::check.
Status framed_image_patches(const ByteSource& source, const PartShape& shape,
                            const Framing& framing, PatchGrid grid, ExactResize resize,
                            PictureDecoding decoding, std::span<std::byte> patches,
                            const DecodeLimit& limit);

/// Return upper bounds of the memory of displayed_image and framed_patches, one after the other,
/// without `patches`.
std::int64_t framed_working_set_bytes(const PartShape& shape, const Framing& framing,
                                      ExactResize resize);
/// Returns the bound with made_square between them, and the square resized to `side`.
std::int64_t squared_working_set_bytes(const PartShape& shape, std::int32_t side,
                                       ExactResize resize);
/// Returns the bound of framed_image_patches.
std::int64_t framed_image_bytes(const PartShape& shape, const Framing& framing, ExactResize resize);
/// Returns the bound of framed_patches alone.
std::int64_t framing_bytes(const PartShape& shape, const Framing& framing, ExactResize resize);

}  // namespace isocost
