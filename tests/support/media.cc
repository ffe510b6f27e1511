#include "tests/support/media.h"

#include <spng.h>
#include <turbojpeg.h>
#include <webp/encode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <numbers>
#include <stdexcept>

#include "base/random.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
}

namespace isocost::test {
namespace {

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

Bytes to_bytes(const void* data, std::size_t size) {
  const auto* first = static_cast<const std::byte*>(data);
  return {first, first + size};
}

void append(Bytes& to, std::initializer_list<int> values) {
  for (const int value : values) to.push_back(static_cast<std::byte>(value));
}

/// APP1 "Exif", a TIFF with one entry: orientation.
Bytes exif(int orientation, bool big) {
  Bytes out;
  append(out, {0xFF, 0xE1, 0, 34, 'E', 'x', 'i', 'f', 0, 0});
  if (big) {
    append(out, {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1});
    append(out, {0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0});
  } else {
    append(out, {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0});
    append(out, {0x12, 0x01, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0, 0, 0, 0, 0});
  }
  return out;
}

Bytes app_segments(std::size_t bytes) {
  Bytes out;
  while (bytes > 0) {
    const std::size_t part = std::min<std::size_t>(bytes, 65'000);
    append(out,
           {0xFF, 0xE2, static_cast<int>((part + 2) >> 8), static_cast<int>((part + 2) & 255)});
    out.resize(out.size() + part, std::byte{0xC0});  // looks like a frame header but is not one
    bytes -= part;
  }
  return out;
}

std::vector<std::uint8_t> with_alpha(const Picture& picture, std::span<const std::uint8_t> alpha) {
  std::vector<std::uint8_t> rgba;
  for (std::size_t i = 0; i < alpha.size(); ++i) {
    rgba.insert(rgba.end(), &picture.rgb[3 * i], &picture.rgb[3 * i] + 3);
    rgba.push_back(alpha[i]);
  }
  return rgba;
}

Bytes encode_png(std::int32_t width, std::int32_t height, std::span<const std::uint8_t> pixels,
                 bool alpha, bool interlaced) {
  const std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> png(spng_ctx_new(SPNG_CTX_ENCODER),
                                                                spng_ctx_free);
  spng_set_option(png.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(width);
  header.height = static_cast<std::uint32_t>(height);
  header.bit_depth = 8;
  header.color_type = alpha ? SPNG_COLOR_TYPE_TRUECOLOR_ALPHA : SPNG_COLOR_TYPE_TRUECOLOR;
  header.interlace_method = interlaced ? SPNG_INTERLACE_ADAM7 : SPNG_INTERLACE_NONE;
  spng_set_ihdr(png.get(), &header);
  require(spng_encode_image(png.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG,
                            SPNG_ENCODE_FINALIZE) == 0,
          "libspng does not encode");
  std::size_t size = 0;
  int error = 0;
  const std::unique_ptr<void, decltype(&std::free)> out(
      spng_get_png_buffer(png.get(), &size, &error), std::free);
  require(out != nullptr && error == 0, "libspng gives no bytes");
  return to_bytes(out.get(), size);
}

struct FreePacket {
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
};
using Packet = std::unique_ptr<AVPacket, FreePacket>;
struct FreeFrame {
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
};
struct FreeCodec {
  void operator()(AVCodecContext* codec) const { avcodec_free_context(&codec); }
};
using Codec = std::unique_ptr<AVCodecContext, FreeCodec>;

Codec open_encoder(AVCodecID id, AVPixelFormat format, const Picture& picture) {
  const AVCodec* encoder = avcodec_find_encoder(id);
  Codec codec(avcodec_alloc_context3(encoder));
  codec->width = picture.width;
  codec->height = picture.height;
  codec->pix_fmt = format;
  codec->time_base = {1, 25};
  require(avcodec_open2(codec.get(), encoder, nullptr) == 0, "no image encoder");
  return codec;
}

/// One packet; `store` turns a pixel into `step` bytes.
template <typename Store>
Packet encode(AVCodecContext& codec, const Picture& picture, int step, Store store) {
  const std::unique_ptr<AVFrame, FreeFrame> frame(av_frame_alloc());
  frame->width = picture.width;
  frame->height = picture.height;
  frame->format = codec.pix_fmt;
  require(av_frame_get_buffer(frame.get(), 0) == 0, "no frame");
  for (std::int32_t y = 0; y < picture.height; ++y) {
    std::uint8_t* row = frame->data[0] + std::ptrdiff_t{y} * frame->linesize[0];
    for (std::int32_t x = 0; x < picture.width; ++x) store(picture.at(x, y), row + x * step);
  }
  frame->pts = 0;
  Packet packet(av_packet_alloc());
  require(avcodec_send_frame(&codec, frame.get()) == 0, "the frame is not encoded");
  require(avcodec_send_frame(&codec, nullptr) == 0, "the encoder does not end");
  require(avcodec_receive_packet(&codec, packet.get()) == 0, "no packet");
  return packet;
}

}  // namespace

Colour Picture::at(std::int32_t x, std::int32_t y) const {
  const auto i = static_cast<std::size_t>(3 * (std::int64_t{y} * width + x));
  return {rgb[i], rgb[i + 1], rgb[i + 2]};
}

void Picture::set(std::int32_t x, std::int32_t y, Colour colour) {
  std::copy(colour.begin(), colour.end(),
            rgb.begin() + std::ptrdiff_t{3} * (std::ptrdiff_t{y} * width + x));
}

Picture plain(std::int32_t width, std::int32_t height, Colour colour) {
  return quarters(width, height, {colour, colour, colour, colour});
}

Picture gradient(std::int32_t width, std::int32_t height, std::uint64_t seed) {
  Picture picture = plain(width, height, {0, 0, 0});
  Random random(seed);
  const double phase = random.uniform() * 6;
  const double turn = random.uniform() * std::numbers::pi;
  for (std::int32_t y = 0; y < height; ++y) {
    for (std::int32_t x = 0; x < width; ++x) {
      const double u = (x * std::cos(turn) + y * std::sin(turn)) / (width + height);
      const auto wave = [&](double k) {
        return static_cast<std::uint8_t>(128 + 120 * std::sin(k * u + phase * k));
      };
      picture.set(x, y, {wave(5), wave(7), wave(11)});
    }
  }
  return picture;
}

Picture quarters(std::int32_t width, std::int32_t height, const std::array<Colour, 4>& colours) {
  Picture picture{width, height, {}};
  picture.rgb.resize(3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  for (std::int32_t y = 0; y < height; ++y) {
    for (std::int32_t x = 0; x < width; ++x) {
      picture.set(x, y, colours[(2 * y >= height ? 2U : 0U) + (2 * x >= width ? 1U : 0U)]);
    }
  }
  return picture;
}

Bytes make_jpeg(const Picture& picture, const JpegSpec& spec) {
  const std::unique_ptr<void, decltype(&tjDestroy)> jpeg(tjInitCompress(), tjDestroy);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  const int code = tjCompress2(jpeg.get(), picture.rgb.data(), picture.width, 0, picture.height,
                               TJPF_RGB, &out, &size, spec.subsampled ? TJSAMP_420 : TJSAMP_444,
                               spec.quality, spec.progressive ? TJFLAG_PROGRESSIVE : 0);
  const std::unique_ptr<unsigned char, decltype(&tjFree)> owner(out, tjFree);
  require(code == 0, "libjpeg-turbo does not encode");
  Bytes bytes = to_bytes(out, 2);
  if (spec.orientation != 1) {
    const Bytes segment = exif(spec.orientation, spec.big_endian_exif);
    bytes.insert(bytes.end(), segment.begin(), segment.end());
  }
  const Bytes more = app_segments(spec.app_bytes);
  bytes.insert(bytes.end(), more.begin(), more.end());
  const Bytes rest = to_bytes(out + 2, size - 2);
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

Bytes make_png(const Picture& picture, bool interlaced) {
  return encode_png(picture.width, picture.height, picture.rgb, false, interlaced);
}

Bytes make_png(const Picture& picture, std::span<const std::uint8_t> alpha) {
  return encode_png(picture.width, picture.height, with_alpha(picture, alpha), true, false);
}

Bytes make_webp(const Picture& picture, bool lossless) {
  std::uint8_t* out = nullptr;
  const int stride = 3 * picture.width;
  const std::size_t size =
      lossless
          ? WebPEncodeLosslessRGB(picture.rgb.data(), picture.width, picture.height, stride, &out)
          : WebPEncodeRGB(picture.rgb.data(), picture.width, picture.height, stride, 95, &out);
  const std::unique_ptr<std::uint8_t, decltype(&WebPFree)> owner(out, WebPFree);
  require(size > 0, "libwebp does not encode");
  return to_bytes(out, size);
}

Bytes make_webp(const Picture& picture, std::span<const std::uint8_t> alpha) {
  const auto rgba = with_alpha(picture, alpha);
  std::uint8_t* out = nullptr;
  const std::size_t size =
      WebPEncodeRGBA(rgba.data(), picture.width, picture.height, 4 * picture.width, 95, &out);
  const std::unique_ptr<std::uint8_t, decltype(&WebPFree)> owner(out, WebPFree);
  require(size > 0, "libwebp does not encode");
  return to_bytes(out, size);
}

Bytes make_gif(const Picture& picture) {
  const Codec codec = open_encoder(AV_CODEC_ID_GIF, AV_PIX_FMT_RGB8, picture);
  const Packet packet = encode(*codec, picture, 1, [](Colour c, std::uint8_t* to) {
    *to = static_cast<std::uint8_t>((c[0] & 0xE0) | ((c[1] & 0xE0) >> 3) | (c[2] >> 6));
  });
  AVFormatContext* raw = nullptr;
  require(avformat_alloc_output_context2(&raw, nullptr, "gif", nullptr) >= 0, "no GIF muxer");
  const std::unique_ptr<AVFormatContext, decltype(&avformat_free_context)> muxer(
      raw, avformat_free_context);
  AVStream* stream = avformat_new_stream(raw, nullptr);
  avcodec_parameters_from_context(stream->codecpar, codec.get());
  stream->time_base = codec->time_base;
  require(avio_open_dyn_buf(&raw->pb) == 0, "no buffer");
  const bool good = avformat_write_header(raw, nullptr) >= 0 &&
                    av_write_frame(raw, packet.get()) >= 0 && av_write_trailer(raw) == 0;
  std::uint8_t* out = nullptr;
  const int size = avio_close_dyn_buf(raw->pb, &out);
  const std::unique_ptr<std::uint8_t, decltype(&av_free)> owner(out, av_free);
  require(good && size > 0, "the GIF muxer writes nothing");
  return to_bytes(out, static_cast<std::size_t>(size));
}

Bytes make_bmp(const Picture& picture) {
  const Codec codec = open_encoder(AV_CODEC_ID_BMP, AV_PIX_FMT_BGR24, picture);
  const Packet packet = encode(*codec, picture, 3, [](Colour c, std::uint8_t* to) {
    to[0] = c[2];
    to[1] = c[1];
    to[2] = c[0];
  });
  return to_bytes(packet->data, static_cast<std::size_t>(packet->size));
}

Bytes make_jpeg(std::int32_t width, std::int32_t height, std::uint64_t seed, int orientation) {
  JpegSpec spec;
  spec.orientation = orientation;
  return make_jpeg(gradient(width, height, seed), spec);
}

Bytes make_png(std::int32_t width, std::int32_t height, std::uint64_t seed) {
  return make_png(gradient(width, height, seed));
}

Bytes make_webp(std::int32_t width, std::int32_t height, std::uint64_t seed) {
  return make_webp(gradient(width, height, seed));
}

Bytes make_gif(std::int32_t width, std::int32_t height, std::uint64_t seed) {
  return make_gif(gradient(width, height, seed));
}

Bytes make_bmp(std::int32_t width, std::int32_t height, std::uint64_t seed) {
  return make_bmp(gradient(width, height, seed));
}

Bytes make_image(MediaFormat format, std::int32_t width, std::int32_t height, std::uint64_t seed) {
  switch (format) {
    case MediaFormat::kJpeg:
      return make_jpeg(width, height, seed);
    case MediaFormat::kPng:
      return make_png(width, height, seed);
    case MediaFormat::kWebp:
      return make_webp(width, height, seed);
    case MediaFormat::kGif:
      return make_gif(width, height, seed);
    case MediaFormat::kBmp:
      return make_bmp(width, height, seed);
    default:
      throw std::runtime_error("make_image: not an image format");
  }
}

Bytes text_bytes(std::string_view text) { return to_bytes(text.data(), text.size()); }

}  // namespace isocost::test
