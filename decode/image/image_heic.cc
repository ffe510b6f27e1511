#include <libheif/heif.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_codecs.h"
#include "decode/image/internal/heif_layout.h"
#include "decode/image/internal/hevc_plugin.h"
#include "decode/image/internal/unpremultiply.h"

namespace isocost {
namespace {

struct FreeHeif {
  void operator()(heif_context* context) const { heif_context_free(context); }
  void operator()(heif_image_handle* handle) const { heif_image_handle_release(handle); }
  void operator()(heif_image* image) const { heif_image_release(image); }
  void operator()(heif_decoding_options* options) const { heif_decoding_options_free(options); }
};
template <typename Object>
using Heif = std::unique_ptr<Object, FreeHeif>;

// Returns nothing if all is well.
Status checked(const heif_error& error) {
  if (error.code == heif_error_Ok) return {};
  if (error.code == heif_error_Memory_allocation_error &&
      error.subcode != heif_suberror_Security_limit_exceeded) {
    throw std::bad_alloc();
  }
  if (error.code == heif_error_Unsupported_feature) {
    return Error(ErrorCode::kUnsupported, "its HEIC picture is of a kind that is not read");
  }
  if (error.code == heif_error_Decoder_plugin_error) {
    return corrupt("its HEIC picture is cut off or damaged");
  }
  // The file contradicts itself, which libheif says best.
  return corrupt("its HEIC picture is not valid (libheif: " + std::string(error.message) + ")");
}

// Copies rows of the picture, which libheif may store further apart.
Result<Pixels> copied(const heif_image* image, std::int32_t width, std::int32_t height,
                      int channels) {
  if (heif_image_get_width(image, heif_channel_interleaved) != width ||
      heif_image_get_height(image, heif_channel_interleaved) != height) {
    return corrupt("its HEIC picture has another size than its header says");
  }
  int stride = 0;
  const std::uint8_t* from =
      heif_image_get_plane_readonly(image, heif_channel_interleaved, &stride);
  if (from == nullptr) return corrupt("its HEIC picture has no pixels");
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(width, height, channels));
  Pixels pixels{width, height, std::vector<std::uint8_t>(bytes)};
  const std::size_t row = bytes / static_cast<std::size_t>(height);
  for (std::int32_t y = 0; y < height; ++y) {
    std::copy_n(from + std::ptrdiff_t{y} * stride, row,
                pixels.rgb.begin() + static_cast<std::ptrdiff_t>(row) * y);
  }
  return pixels;
}

// Returns what the file says of the range of its values; nothing if it does not.
std::optional<bool> full_range_of(const heif_image_handle* handle) {
  heif_color_profile_nclx* profile = nullptr;
  if (heif_image_handle_get_nclx_color_profile(handle, &profile).code != heif_error_Ok) {
    return std::nullopt;
  }
  const bool is_full = profile->full_range_flag != 0;
  heif_nclx_color_profile_free(profile);
  return is_full;
}

}  // namespace

Result<Pixels> decode_heic(ByteView file, std::int32_t width, std::int32_t height,
                           const ImageDecoding& how, const DecodeLimit& /*limit*/) {
  const MemoryByteSource source(std::as_bytes(file));
  HeaderWindow window(source);
  ISOCOST_ASSIGN(const HeifLayout layout, read_heif_layout(window));
  register_hevc_plugin();
  // The blocks of a coded picture go beyond its sides.
  constexpr std::int64_t kBlock = 64;
  const std::int64_t coded =
      std::max(layout.coded_pixels, std::int64_t{layout.width} * layout.height);
  const Heif<heif_context> context(heif_context_alloc());
  if (!context) throw std::bad_alloc();
  heif_context_set_max_decoding_threads(context.get(), 0);
  ISOCOST_TRY(checked(heif_context_read_from_memory_without_copy(context.get(), file.data(),
                                                                 file.size(), nullptr)));
  heif_image_handle* primary = nullptr;
  ISOCOST_TRY(checked(heif_context_get_primary_image_handle(context.get(), &primary)));
  const Heif<heif_image_handle> handle(primary);
  const std::int64_t most =
      coded + kBlock * (std::int64_t{layout.width} + layout.height) + kBlock * kBlock;
  const HevcDecoding decoding(most, full_range_of(primary), layout.is_grid);
  const bool has_alpha = heif_image_handle_has_alpha_channel(primary) != 0;
  const Heif<heif_decoding_options> options(heif_decoding_options_alloc());
  if (!options) throw std::bad_alloc();
  options->convert_hdr_to_8bit = 1;
  options->strict_decoding = 1;
  heif_image* decoded = nullptr;
  ISOCOST_TRY(checked(heif_decode_image(
      primary, &decoded, heif_colorspace_RGB,
      has_alpha ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB, options.get())));
  const Heif<heif_image> image(decoded);
  ISOCOST_ASSIGN(Pixels pixels, copied(decoded, width, height, has_alpha ? 4 : 3));
  if (heif_image_handle_is_premultiplied_alpha(primary) != 0) unpremultiply(pixels.rgb);
  if (has_alpha) make_opaque(pixels.rgb, how.alpha);
  return pixels;
}

}  // namespace isocost
