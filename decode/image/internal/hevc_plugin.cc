#include "decode/image/internal/hevc_plugin.h"

#include <libde265/de265.h>
#include <libheif/heif.h>
#include <libheif/heif_plugin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

namespace isocost {
namespace {

struct Present {
  std::int64_t most_pixels = 0;
  std::optional<bool> full_range;
  bool is_grid = false;
  /// Whether the picture's colours have become samples of 8 bits, so its opacity does, too.
  bool narrows = false;
};
thread_local Present present;

struct FreeImage {
  void operator()(heif_image* image) const { heif_image_release(image); }
};
using HeifImage = std::unique_ptr<heif_image, FreeImage>;

constexpr heif_error kFine = {heif_error_Ok, heif_suberror_Unspecified, "Success"};
constexpr heif_error kDamaged = {heif_error_Decoder_plugin_error, heif_suberror_Unspecified,
                                 "damaged"};

// Allocates a picture, unless its header says that it is larger than its file's.
int get_buffer(de265_decoder_context* context, de265_image_spec* spec, de265_image* image,
               void* user) {
  if (std::int64_t{spec->width} * spec->height > present.most_pixels) return 0;
  return de265_get_default_image_allocation_functions()->get_buffer(context, spec, image, user);
}

void release_buffer(de265_decoder_context* context, de265_image* image, void* user) {
  de265_get_default_image_allocation_functions()->release_buffer(context, image, user);
}

const char* plugin_name() { return "libde265 on one thread"; }

int priority(heif_compression_format format) {
  constexpr int kAboveOthers = 1000;
  return format == heif_compression_HEVC ? kAboveOthers : 0;
}

heif_error new_decoder(void** decoder) {
  de265_decoder_context* context = de265_new_decoder();
  if (context == nullptr) return kDamaged;
  de265_image_allocation allocation{get_buffer, release_buffer};
  de265_set_image_allocation_functions(context, &allocation, nullptr);
  de265_set_parameter_bool(context, DE265_DECODER_PARAM_BOOL_SEI_CHECK_HASH, 1);
  *decoder = context;
  return kFine;
}

void free_decoder(void* decoder) { de265_free_decoder(decoder); }

// Takes units, each after its length in four bytes.
heif_error push_data(void* decoder, const void* data, std::size_t size) {
  constexpr std::size_t kLength = 4;
  std::span bytes(static_cast<const std::uint8_t*>(data), size);
  while (!bytes.empty()) {
    if (bytes.size() < kLength) return kDamaged;
    std::size_t length = 0;
    for (std::size_t i = 0; i < kLength; ++i) length = (length << 8) | bytes[i];
    bytes = bytes.subspan(kLength);
    if (length > bytes.size()) return kDamaged;
    if (de265_push_NAL(decoder, bytes.data(), static_cast<int>(length), 0, nullptr) != DE265_OK) {
      return kDamaged;
    }
    bytes = bytes.subspan(length);
  }
  return kFine;
}

// The treatment of the bits of a sample below the upper 8.
enum class LowerBits : std::uint8_t {
  kKept,
  kDropped,  ///< The sample has 8 bits.
  /// The sample keeps its depth. Of luma they become a half, because libheif cuts off the bits of
  /// the colours that it computes, where it rounds colours of 8 bits.
  kCleared,
};

LowerBits lower_bits(const de265_image* image) {
  if (de265_get_bits_per_pixel(image, 0) <= 8) return LowerBits::kKept;
  const de265_chroma chroma = de265_get_chroma_format(image);
  if (chroma == de265_chroma_mono) {
    return present.narrows ? LowerBits::kDropped : LowerBits::kKept;
  }
  const bool is_full = present.full_range.value_or(de265_get_image_full_range_flag(image) != 0);
  const bool reduces = chroma == de265_chroma_420 && is_full;
  present.narrows = reduces && !present.is_grid;
  if (!reduces) return LowerBits::kKept;
  return present.is_grid ? LowerBits::kCleared : LowerBits::kDropped;
}

unsigned sample_at(const std::uint8_t* row, std::ptrdiff_t x) {
  return row[2 * x] | (unsigned{row[2 * x + 1]} << 8);
}

void drop_lower_bits(const std::uint8_t* from, int width, int bits, std::uint8_t* to) {
  for (std::ptrdiff_t x = 0; x < width; ++x) {
    to[x] = static_cast<std::uint8_t>(sample_at(from, x) >> (bits - 8));
  }
}

void clear_lower_bits(const std::uint8_t* from, int width, int bits, bool is_luma,
                      std::uint8_t* to) {
  const unsigned step = 1U << (bits - 8);
  const unsigned lower = is_luma ? step / 2 : 0;
  for (std::ptrdiff_t x = 0; x < width; ++x) {
    const unsigned value = (sample_at(from, x) & ~(step - 1)) | lower;
    to[2 * x] = static_cast<std::uint8_t>(value & 0xFF);
    to[2 * x + 1] = static_cast<std::uint8_t>(value >> 8);
  }
}

// Copies a plane of the decoder's into one of libheif's.
bool copy_plane(const de265_image* from, int channel, heif_channel name, LowerBits lower,
                heif_image* to) {
  const int width = de265_get_image_width(from, channel);
  const int height = de265_get_image_height(from, channel);
  const int bits = de265_get_bits_per_pixel(from, channel);
  int from_row = 0;
  const std::uint8_t* source = de265_get_image_plane(from, channel, &from_row);
  if (source == nullptr || width <= 0 || height <= 0 ||
      heif_image_add_plane(to, name, width, height, lower == LowerBits::kDropped ? 8 : bits).code !=
          heif_error_Ok) {
    return false;
  }
  int to_row = 0;
  std::uint8_t* target = heif_image_get_plane(to, name, &to_row);
  if (target == nullptr) return false;
  for (int y = 0; y < height; ++y) {
    const std::uint8_t* row = source + std::ptrdiff_t{y} * from_row;
    std::uint8_t* copy = target + std::ptrdiff_t{y} * to_row;
    if (lower == LowerBits::kDropped) {
      drop_lower_bits(row, width, bits, copy);
    } else if (lower == LowerBits::kCleared) {
      clear_lower_bits(row, width, bits, channel == 0, copy);
    } else {
      std::memcpy(copy, row, static_cast<std::size_t>(width) * (bits > 8 ? 2 : 1));
    }
  }
  return true;
}

// Says how the stream itself describes its colours, which counts where the file does not.
void describe_colours(const de265_image* from, heif_image* to) {
  heif_color_profile_nclx* profile = heif_nclx_color_profile_alloc();
  if (profile == nullptr) return;
  heif_nclx_color_profile_set_color_primaries(
      profile, static_cast<std::uint16_t>(de265_get_image_colour_primaries(from)));
  heif_nclx_color_profile_set_transfer_characteristics(
      profile, static_cast<std::uint16_t>(de265_get_image_transfer_characteristics(from)));
  heif_nclx_color_profile_set_matrix_coefficients(
      profile, static_cast<std::uint16_t>(de265_get_image_matrix_coefficients(from)));
  profile->full_range_flag =
      static_cast<std::uint8_t>(de265_get_image_full_range_flag(from) != 0 ? 1 : 0);
  heif_image_set_nclx_color_profile(to, profile);
  heif_nclx_color_profile_free(profile);
}

// A stream may state another depth of its colours than of luma. Planes are copied at one depth, and
// libheif 1.15 converts no others.
bool has_one_depth(const de265_image* from) {
  const int luma = de265_get_bits_per_pixel(from, 0);
  return de265_get_bits_per_pixel(from, 1) == luma && de265_get_bits_per_pixel(from, 2) == luma;
}

HeifImage converted(const de265_image* from) {
  const bool is_mono = de265_get_chroma_format(from) == de265_chroma_mono;
  if (!is_mono && !has_one_depth(from)) return nullptr;
  heif_chroma chroma = heif_chroma_monochrome;
  if (!is_mono) {
    constexpr std::array kChromas = {heif_chroma_monochrome, heif_chroma_420, heif_chroma_422,
                                     heif_chroma_444};
    chroma = kChromas.at(static_cast<std::size_t>(de265_get_chroma_format(from)));
  }
  heif_image* made = nullptr;
  if (heif_image_create(de265_get_image_width(from, 0), de265_get_image_height(from, 0),
                        is_mono ? heif_colorspace_monochrome : heif_colorspace_YCbCr, chroma, &made)
          .code != heif_error_Ok) {
    return nullptr;
  }
  HeifImage image(made);
  const LowerBits lower = lower_bits(from);
  constexpr std::array kNames = {heif_channel_Y, heif_channel_Cb, heif_channel_Cr};
  for (int channel = 0; channel < (is_mono ? 1 : 3); ++channel) {
    if (!copy_plane(from, channel, kNames.at(static_cast<std::size_t>(channel)), lower,
                    image.get())) {
      return nullptr;
    }
  }
  describe_colours(from, image.get());
  return image;
}

heif_error decode_image(void* decoder, heif_image** out) {
  *out = nullptr;
  if (de265_flush_data(decoder) != DE265_OK) return kDamaged;
  HeifImage image;
  for (int more = 1; more != 0;) {
    more = 0;
    if (de265_decode(decoder, &more) != DE265_OK) return kDamaged;
    if (image) continue;  // A still picture is the stream's first.
    if (const de265_image* found = de265_get_next_picture(decoder)) {
      image = converted(found);
      if (!image) return kDamaged;
    }
  }
  // libde265 says of most damage no more than a warning.
  if (!image || de265_get_warning(decoder) != DE265_OK) return kDamaged;
  *out = image.release();
  return kFine;
}

void set_strict(void* /*decoder*/, int /*is_strict*/) {}

constexpr heif_decoder_plugin kPlugin = {
    .plugin_api_version = 3,
    .get_plugin_name = plugin_name,
    .init_plugin = nullptr,
    .deinit_plugin = nullptr,
    .does_support_format = priority,
    .new_decoder = new_decoder,
    .free_decoder = free_decoder,
    .push_data = push_data,
    .decode_image = decode_image,
    .set_strict_decoding = set_strict,
    .id_name = "isocost",
};

}  // namespace

void register_hevc_plugin() {
  [[maybe_unused]] static const heif_error registered = heif_register_decoder_plugin(&kPlugin);
}

HevcDecoding::HevcDecoding(std::int64_t most_pixels, std::optional<bool> full_range, bool is_grid) {
  present = {most_pixels, full_range, is_grid, false};
}
HevcDecoding::~HevcDecoding() { present = {}; }

}  // namespace isocost
