// Measures the decoding of PNGs on one core, against libspng: png_bench [DIR] writes the pictures
// that it makes into a directory, for other decoders to be measured with. Contenders take turns,
// picture by picture, in CPU time of the thread; pixels are compared first.

#include <spng.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/random.h"
#include "decode/image/image_codecs.h"
#include "decode/image/internal/plain_png.h"

namespace isocost {
namespace {

constexpr int kRounds = 15;

struct Case {
  std::string name;
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::size_t channels = 0;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> png;
};

void require(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

// A grid of random numbers, interpolated: noise of one scale.
class Octave {
 public:
  Octave(std::int32_t width, std::int32_t height, std::int32_t scale, Random& random)
      : scale_(scale), columns_(width / scale + 2) {
    values_.resize(static_cast<std::size_t>(columns_) *
                   static_cast<std::size_t>(height / scale + 2));
    for (float& value : values_) value = static_cast<float>(random.uniform() * 2 - 1);
  }
  float at(std::int32_t x, std::int32_t y) const {
    const float u = static_cast<float>(x % scale_) / static_cast<float>(scale_);
    const float v = static_cast<float>(y % scale_) / static_cast<float>(scale_);
    const std::int32_t cell = y / scale_ * columns_ + x / scale_;
    const float* corner = &values_[static_cast<std::size_t>(cell)];
    const float upper = corner[0] + u * (corner[1] - corner[0]);
    const float lower = corner[columns_] + u * (corner[columns_ + 1] - corner[columns_]);
    return upper + v * (lower - upper);
  }

 private:
  std::int32_t scale_;
  std::int32_t columns_;
  std::vector<float> values_;
};

// Amplitudes fall with frequency, as in photographs, down to the noise of a sensor.
std::vector<std::uint8_t> photograph(std::int32_t width, std::int32_t height, Random& random) {
  std::vector<std::uint8_t> rgb;
  std::vector<Octave> light;
  std::vector<Octave> tint;
  for (std::int32_t scale = 256; scale >= 1; scale /= 2) {
    light.emplace_back(width, height, scale, random);
    tint.emplace_back(width, height, scale, random);
  }
  for (std::int32_t y = 0; y < height; ++y) {
    for (std::int32_t x = 0; x < width; ++x) {
      float grey = 128;
      float colour = 0;
      for (std::size_t i = 0; i < light.size(); ++i) {
        const float amplitude = 64.0F / static_cast<float>(1U << i);
        grey += amplitude * light[i].at(x, y);
        colour += amplitude * tint[i].at(x, y) / 4;
      }
      for (const float part : {1.0F, 0.2F, -0.8F}) {
        const float noise = 4 * static_cast<float>(random.uniform() + random.uniform() - 1);
        rgb.push_back(
            static_cast<std::uint8_t>(std::clamp(grey + part * colour + noise, 0.0F, 255.0F)));
      }
    }
  }
  return rgb;
}

void fill(std::vector<std::uint8_t>& rgb, std::int32_t width, std::array<std::int32_t, 4> box,
          std::array<std::uint8_t, 3> colour) {
  for (std::int32_t y = box[1]; y < box[3]; ++y) {
    for (std::int32_t x = box[0]; x < box[2]; ++x) {
      std::ranges::copy(colour, &rgb[3 * static_cast<std::size_t>(y * width + x)]);
    }
  }
}

// A page with a side bar, lines of letters with soft edges, and a photograph in it.
std::vector<std::uint8_t> screenshot(std::int32_t width, std::int32_t height, Random& random) {
  std::vector<std::uint8_t> rgb(std::size_t{3} * static_cast<std::size_t>(width * height), 250);
  fill(rgb, width, {0, 0, width, 48}, {36, 41, 47});
  fill(rgb, width, {0, 48, width / 5, height}, {246, 248, 250});
  std::array<std::array<std::uint8_t, 48>, 40> letters{};  // 6 by 8
  for (auto& letter : letters) {
    for (std::uint8_t& shade : letter) {
      const double ink = random.uniform();
      shade = ink < 0.55 ? 250 : static_cast<std::uint8_t>(ink < 0.8 ? 30 : 60 + 180 * (ink - 0.8));
    }
  }
  for (std::int32_t line = 64; line + 16 < height; line += 18) {
    const auto end = static_cast<std::int32_t>(width * (0.5 + 0.45 * random.uniform()));
    for (std::int32_t at = width / 5 + 16; at + 8 < end; at += 8) {
      if (random.uniform() < 0.17) continue;
      const auto& letter = letters[static_cast<std::size_t>(random.uniform() * 39.99)];
      for (std::int32_t i = 0; i < 48; ++i) {
        const std::uint8_t shade = letter[static_cast<std::size_t>(i)];
        const std::int32_t x = at + i % 6;
        const std::int32_t y = line + i / 6;
        fill(rgb, width, {x, y, x + 1, y + 1}, {shade, shade, shade});
      }
    }
  }
  const std::int32_t side = height / 4;
  const auto picture = photograph(side, side, random);
  for (std::int32_t y = 0; y < side; ++y) {
    std::copy_n(&picture[3 * static_cast<std::size_t>(y * side)], 3 * side,
                &rgb[3 * static_cast<std::size_t>((y + height / 2) * width + width / 2)]);
  }
  return rgb;
}

// Opaque except for a soft border, as windows are.
std::vector<std::uint8_t> with_alpha(const std::vector<std::uint8_t>& rgb, std::int32_t width,
                                     std::int32_t height) {
  std::vector<std::uint8_t> rgba;
  for (std::int32_t y = 0; y < height; ++y) {
    for (std::int32_t x = 0; x < width; ++x) {
      const auto i = 3 * static_cast<std::size_t>(y * width + x);
      const std::int32_t edge = std::min({x, y, width - 1 - x, height - 1 - y});
      rgba.insert(rgba.end(), {rgb[i], rgb[i + 1], rgb[i + 2],
                               static_cast<std::uint8_t>(std::min(255, 16 * edge))});
    }
  }
  return rgba;
}

// Encodes a PNG like other programs: zlib's level 6, and for each row the filter that seems best.
std::vector<std::uint8_t> encode(const Case& one) {
  const std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> png(spng_ctx_new(SPNG_CTX_ENCODER),
                                                                spng_ctx_free);
  spng_set_option(png.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_set_option(png.get(), SPNG_IMG_COMPRESSION_LEVEL, 6);
  spng_set_option(png.get(), SPNG_FILTER_CHOICE, SPNG_FILTER_CHOICE_ALL);
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(one.width);
  header.height = static_cast<std::uint32_t>(one.height);
  header.bit_depth = 8;
  header.color_type =
      one.channels == 4 ? SPNG_COLOR_TYPE_TRUECOLOR_ALPHA : SPNG_COLOR_TYPE_TRUECOLOR;
  spng_set_ihdr(png.get(), &header);
  require(spng_encode_image(png.get(), one.pixels.data(), one.pixels.size(), SPNG_FMT_PNG,
                            SPNG_ENCODE_FINALIZE) == 0,
          "libspng does not encode");
  std::size_t size = 0;
  int error = 0;
  const std::unique_ptr<void, decltype(&std::free)> out(
      spng_get_png_buffer(png.get(), &size, &error), std::free);
  require(out != nullptr && error == 0, "libspng gives no bytes");
  const auto* first = static_cast<const std::uint8_t*>(out.get());
  return {first, first + size};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  Random random(1);
  for (const auto& [width, height] : {std::pair{640, 480}, {1280, 800}, {1920, 1440}}) {
    for (const bool photo : {true, false}) {
      const auto rgb =
          photo ? photograph(width, height, random) : screenshot(width, height, random);
      const std::string name = std::string(photo ? "photograph" : "screenshot") + "_" +
                               std::to_string(width) + "x" + std::to_string(height);
      all.push_back({name + "_rgb", width, height, 3, rgb, {}});
      all.push_back({name + "_rgba", width, height, 4, with_alpha(rgb, width, height), {}});
    }
  }
  for (Case& one : all) one.png = encode(one);
  return all;
}

using Decoder = Result<Pixels> (*)(ByteView, std::int32_t, std::int32_t, Alpha);

Result<Pixels> decode_fast(ByteView file, std::int32_t width, std::int32_t height, Alpha alpha) {
  return decode_png(file, width, height, {.alpha = alpha}, {});
}

std::vector<std::uint8_t> decoded(const Case& one, Decoder decoder) {
  auto pixels = decoder(one.png, one.width, one.height, Alpha::kWhite);
  require(pixels.has_value(), one.name + ": does not decode");
  return std::move(pixels->rgb);
}

// Decodes as a user of libspng would: gives the pixels as they are stored, alpha included.
void bare(const Case& one, std::vector<std::uint8_t>& pixels) {
  const std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> png(spng_ctx_new(0), spng_ctx_free);
  spng_set_png_buffer(png.get(), one.png.data(), one.png.size());
  pixels = std::vector<std::uint8_t>(one.pixels.size());
  require(spng_decode_image(png.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG, 0) == 0,
          one.name + ": does not decode");
}

void compare(const Case& one) {
  std::vector<std::uint8_t> pixels;
  bare(one, pixels);
  require(pixels == one.pixels, one.name + ": libspng makes other pixels");
  require(decode_plain_png(one.png, one.width, one.height, Alpha::kWhite).has_value(),
          one.name + ": is not decoded the fast way");
  require(decoded(one, decode_fast) == decoded(one, decode_any_png),
          one.name + ": pixels differ from libspng's");
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double timed(const std::function<void()>& run) {
  const double begin = thread_seconds();
  run();
  return thread_seconds() - begin;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(const Case& one) {
  std::vector<std::uint8_t> pixels;
  std::vector<double> rates;
  std::vector<double> to_bare;
  std::vector<double> to_rgb;
  for (int round = 0; round <= kRounds; ++round) {
    const double spng = timed([&] { bare(one, pixels); });
    const double spng_rgb = timed([&] { pixels = decoded(one, decode_any_png); });
    const double ours = timed([&] { pixels = decoded(one, decode_fast); });
    if (round == 0) continue;  // warms up
    rates.push_back(1e-6 * one.width * one.height / ours);
    to_bare.push_back(spng / ours);
    to_rgb.push_back(spng_rgb / ours);
  }
  const auto [least, most] = std::ranges::minmax(rates);
  const auto [lowest, highest] = std::ranges::minmax(to_bare);
  std::printf("%-30s %5.2f %6.1f (%6.1f to %6.1f) %6.2f (%4.2f to %4.2f) %6.2f\n", one.name.c_str(),
              static_cast<double>(one.png.size()) / static_cast<double>(one.pixels.size()),
              median(rates), least, most, median(to_bare), lowest, highest, median(to_rgb));
}

void run(const char* directory) {
  const std::vector<Case> all = cases();
  for (const Case& one : all) {
    compare(one);
    if (directory == nullptr) continue;
    std::ofstream file(std::filesystem::path(directory) / (one.name + ".png"), std::ios::binary);
    file.write(reinterpret_cast<const char*>(one.png.data()),
               static_cast<std::streamsize>(one.png.size()));
  }
  std::printf("%d rounds, measured in CPU time of one thread\n%-30s %5s %26s %22s %6s\n", kRounds,
              "", "bytes", "MPix/s (least to most)", "of bare libspng", "to RGB");
  for (const Case& one : all) measure(one);
}

}  // namespace
}  // namespace isocost

int main(int argc, char** argv) try {
  isocost::run(argc > 1 ? argv[1] : nullptr);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "png_bench: %s\n", error.what());
  return 1;
}
