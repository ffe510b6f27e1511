#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "decode/shape/media_formats.h"
#include "tests/support/av_media.h"

// Makes pictures at run time with the codec libraries' encoders. A failure to encode throws
// std::runtime_error, as the test machine then lacks a library.
namespace isocost::test {

using Colour = std::array<std::uint8_t, 3>;

/// [height, width, 3] RGB.
struct Picture {
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::vector<std::uint8_t> rgb;

  Colour at(std::int32_t x, std::int32_t y) const;
  void set(std::int32_t x, std::int32_t y, Colour colour);
};

Picture plain(std::int32_t width, std::int32_t height, Colour colour);
/// Smooth gradients in colours that depend on the seed. They compress like a photograph.
Picture gradient(std::int32_t width, std::int32_t height, std::uint64_t seed);
/// Four plain quarters: top left, top right, bottom left, bottom right.
Picture quarters(std::int32_t width, std::int32_t height, const std::array<Colour, 4>& colours);

struct JpegSpec {
  int orientation = 1;  ///< 1 writes no EXIF.
  int quality = 95;
  bool progressive = false;
  bool subsampled = false;  ///< 4:2:0
  bool big_endian_exif = false;
  std::size_t app_bytes =
      0;  ///< Size of APP2 segments (as of a colour profile) before the picture.
};
/// Stores the picture as it is; `orientation` says how a viewer should turn it.
Bytes make_jpeg(const Picture& picture, const JpegSpec& spec = {});
Bytes make_png(const Picture& picture, bool interlaced = false);
/// `alpha`: one byte per pixel.
Bytes make_png(const Picture& picture, std::span<const std::uint8_t> alpha);
Bytes make_webp(const Picture& picture, bool lossless = false);
Bytes make_webp(const Picture& picture, std::span<const std::uint8_t> alpha);
/// Colours are rounded to 3, 3 and 2 bits.
Bytes make_gif(const Picture& picture);
Bytes make_bmp(const Picture& picture);

/// These store gradients of a seed.
Bytes make_jpeg(std::int32_t width, std::int32_t height, std::uint64_t seed = 1,
                int orientation = 1);
Bytes make_png(std::int32_t width, std::int32_t height, std::uint64_t seed = 1);
Bytes make_webp(std::int32_t width, std::int32_t height, std::uint64_t seed = 1);
Bytes make_gif(std::int32_t width, std::int32_t height, std::uint64_t seed = 1);
Bytes make_bmp(std::int32_t width, std::int32_t height, std::uint64_t seed = 1);
/// kJpeg, kPng, kWebp, kGif or kBmp.
Bytes make_image(MediaFormat format, std::int32_t width, std::int32_t height,
                 std::uint64_t seed = 1);

Bytes text_bytes(std::string_view text);

}  // namespace isocost::test
