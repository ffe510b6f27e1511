#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "decode/image/image_decoder.h"
#include "decode/prepare/exact_image.h"
#include "decode/probe.h"
#include "decode/recipes/internal/native28_grid.h"
#include "tests/support/media.h"

namespace isocost {
namespace {

using test::Bytes;
using test::Colour;
using test::Picture;

constexpr Colour kRed = {224, 0, 0};
constexpr Colour kGreen = {0, 224, 0};
constexpr Colour kBlue = {0, 0, 192};
constexpr Colour kGrey = {96, 96, 64};

struct Decoded {
  PatchGrid grid;
  std::vector<std::byte> patches;

  /// The pixel of the displayed picture, found through the layout of patches.
  Colour at(std::int32_t x, std::int32_t y) const {
    const std::int32_t group = (y / 28) * (grid.columns / 2) + x / 28;
    const std::int32_t patch = 4 * group + 2 * (y % 28 / 14) + x % 28 / 14;
    const auto i = static_cast<std::size_t>(588 * patch + 3 * (14 * (y % 14) + x % 14));
    const auto value = [&](std::size_t c) { return static_cast<std::uint8_t>(patches[i + c]); };
    return {value(0), value(1), value(2)};
  }
};

// Makes patches with native28's settings.
Status image_patches(const ByteSource& source, const PartShape& shape, PatchGrid grid,
                     std::span<std::byte> patches) {
  return framed_image_patches(source, shape, whole(grid), grid, {ResampleFilter::kBilinear},
                              {.exactness = Exactness::kFast}, patches, {});
}

Result<Decoded> decode(const Bytes& bytes, std::string_view name, int max_patches = 4096) {
  const MemoryByteSource source(bytes);
  ISOCOST_ASSIGN(const PartShape shape, probe(source, name, {}));
  Decoded out;
  out.grid = patch_grid(shape.width, shape.height, max_patches);
  out.patches.resize(static_cast<std::size_t>(out.grid.bytes()));
  ISOCOST_TRY(image_patches(source, shape, out.grid, out.patches));
  return out;
}

int distance(Colour a, Colour b) {
  int most = 0;
  for (std::size_t c = 0; c < 3; ++c) most = std::max(most, std::abs(a[c] - b[c]));
  return most;
}

/// Returns the source of each displayed quarter of a picture, by EXIF's definition.
std::array<Colour, 4> turned(const std::array<Colour, 4>& q, int orientation) {
  const std::array<std::array<std::size_t, 4>, 8> from = {{{0, 1, 2, 3},
                                                           {1, 0, 3, 2},
                                                           {3, 2, 1, 0},
                                                           {2, 3, 0, 1},
                                                           {0, 2, 1, 3},
                                                           {2, 0, 3, 1},
                                                           {3, 1, 2, 0},
                                                           {1, 3, 0, 2}}};
  const auto& f = from[static_cast<std::size_t>(orientation - 1)];
  return {q[f[0]], q[f[1]], q[f[2]], q[f[3]]};
}

void expect_quarters(const Decoded& picture, const std::array<Colour, 4>& colours, int tolerance) {
  const std::int32_t width = picture.grid.width();
  const std::int32_t height = picture.grid.height();
  for (const std::int32_t y : {height / 6, height - 1 - height / 6}) {
    for (const std::int32_t x : {width / 6, width - 1 - width / 6}) {
      const std::size_t quarter = (2 * y >= height ? 2U : 0U) + (2 * x >= width ? 1U : 0U);
      EXPECT_LE(distance(picture.at(x, y), colours[quarter]), tolerance) << x << "," << y;
    }
  }
}

const std::array<Colour, 4> kQuarters = {kRed, kGreen, kBlue, kGrey};

TEST(ImagePatches, ColoursLandInTheRightPatchInEveryFormat) {
  const Picture picture = test::quarters(112, 84, kQuarters);
  for (const auto& [name, bytes] :
       std::vector<std::pair<std::string, Bytes>>{{"jpg", test::make_jpeg(picture)},
                                                  {"png", test::make_png(picture)},
                                                  {"png", test::make_png(picture, true)},
                                                  {"webp", test::make_webp(picture)},
                                                  {"webp", test::make_webp(picture, true)},
                                                  {"gif", test::make_gif(picture)},
                                                  {"bmp", test::make_bmp(picture)}}) {
    SCOPED_TRACE(name);
    const auto decoded = decode(bytes, name);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().to_string();
    EXPECT_EQ(decoded->grid, (PatchGrid{6, 8}));
    expect_quarters(*decoded, kQuarters, name == "gif" ? 64 : 12);
  }
}

TEST(ImagePatches, LosslessFormatsKeepEveryPixel) {
  const Picture picture = test::gradient(84, 56, 7);
  for (const auto& [name, bytes] :
       std::vector<std::pair<std::string, Bytes>>{{"png", test::make_png(picture)},
                                                  {"png", test::make_png(picture, true)},
                                                  {"webp", test::make_webp(picture, true)},
                                                  {"bmp", test::make_bmp(picture)}}) {
    const auto decoded = decode(bytes, name);
    ASSERT_TRUE(decoded.has_value());
    for (int y = 0; y < 56; ++y) {
      for (int x = 0; x < 84; ++x) ASSERT_EQ(decoded->at(x, y), picture.at(x, y)) << name;
    }
  }
}

TEST(ImagePatches, GifKeepsEveryPixelOfItsPalette) {
  Picture picture = test::plain(252, 224, {0, 0, 0});
  Random random(5);
  for (int y = 0; y < 224; ++y) {  // noise below, runs above: all widths of codes, and clears
    for (int x = 0; x < 252; ++x) {
      const auto value = static_cast<std::uint8_t>(y < 100 ? (x / 50) * 64 : random.below(4) * 64);
      picture.set(x, y, {value, value, value});
    }
  }
  const auto decoded = decode(test::make_gif(picture), "gif");
  ASSERT_TRUE(decoded.has_value()) << decoded.error().to_string();
  for (int y = 0; y < 224; ++y) {
    for (int x = 0; x < 252; ++x) {
      const int value = picture.at(x, y)[0];
      const auto red = static_cast<std::uint8_t>(value / 32 * 36);
      const Colour shown = {red, red, static_cast<std::uint8_t>(value / 64 * 85)};
      ASSERT_EQ(decoded->at(x, y), shown) << x << "," << y;
    }
  }
}

TEST(ImagePatches, EveryOrientationIsTurnedAsExifSays) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    test::JpegSpec spec;
    spec.orientation = orientation;
    const auto decoded = decode(test::make_jpeg(test::quarters(168, 84, kQuarters), spec), "jpg");
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(decoded->grid.columns, orientation > 4 ? 6 : 12);
    expect_quarters(*decoded, turned(kQuarters, orientation), 12);
  }
}

TEST(ImagePatches, ScalesDownAndUp) {
  for (const auto& [width, height, limit] : std::vector<std::array<int, 3>>{{2240, 1680, 4096},
                                                                            {2240, 1680, 48},
                                                                            {900, 700, 192},
                                                                            {10, 8, 4096},
                                                                            {1000, 9, 4096},
                                                                            {100, 3, 4096}}) {
    SCOPED_TRACE(width);
    const Picture picture = test::quarters(width, height, kQuarters);
    for (const auto& [name, bytes] : std::vector<std::pair<std::string, Bytes>>{
             {"jpg", test::make_jpeg(picture)}, {"png", test::make_png(picture)}}) {
      const auto decoded = decode(bytes, name, limit);
      ASSERT_TRUE(decoded.has_value()) << decoded.error().to_string();
      expect_quarters(*decoded, kQuarters, 25);
    }
  }
}

TEST(ImagePatches, AlphaIsComposedOnWhite) {
  const Picture picture = test::plain(56, 28, kRed);
  std::vector<std::uint8_t> alpha(std::size_t{56} * 28, 0);
  for (std::size_t i = 0; i < alpha.size(); ++i) alpha[i] = i % 56 < 28 ? 0 : 255;
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, Bytes>>{
           {"png", test::make_png(picture, alpha)}, {"webp", test::make_webp(picture, alpha)}}) {
    const auto decoded = decode(bytes, name);
    ASSERT_TRUE(decoded.has_value());
    EXPECT_LE(distance(decoded->at(3, 3), {255, 255, 255}), 2);
    EXPECT_LE(distance(decoded->at(50, 3), kRed), 8);
  }
  alpha.assign(alpha.size(), 128);
  const auto half = decode(test::make_png(picture, alpha), "png");
  EXPECT_LE(distance(half->at(3, 3), {239, 127, 127}), 1);
}

TEST(ImagePatches, ProgressiveAndSubsampledJpegsDecode) {
  for (const bool progressive : {false, true}) {
    test::JpegSpec spec;
    spec.progressive = progressive;
    spec.subsampled = true;
    const auto decoded = decode(test::make_jpeg(test::quarters(112, 84, kQuarters), spec), "jpg");
    ASSERT_TRUE(decoded.has_value());
    expect_quarters(*decoded, kQuarters, 12);
  }
}

TEST(ImagePatches, AJpegWarningDoesNotHideTruncation) {
  Bytes bytes = test::make_jpeg(test::gradient(200, 140, 3));
  const auto clean = decode(bytes, "jpg");
  const std::array<std::byte, 2> junk = {std::byte{0x12}, std::byte{0x34}};
  bytes.insert(bytes.end() - 2, junk.begin(), junk.end());
  const auto padded = decode(bytes, "jpg");
  ASSERT_TRUE(padded.has_value()) << padded.error().to_string();
  EXPECT_EQ(padded->patches, clean->patches);
  bytes.resize(bytes.size() - 2);
  EXPECT_EQ(decode(bytes, "jpg").error().code(), ErrorCode::kCorrupt);
}

/// A prefix must fail, or (where only bytes after the pixels are missing) give the same picture.
TEST(ImagePatches, CutOffFilesAreErrorsNotPictures) {
  const Picture picture = test::gradient(200, 140, 3);
  test::JpegSpec progressive;
  progressive.progressive = true;
  for (const auto& [name, bytes] :
       std::vector<std::pair<std::string, Bytes>>{{"jpg", test::make_jpeg(picture)},
                                                  {"jpg", test::make_jpeg(picture, progressive)},
                                                  {"png", test::make_png(picture)},
                                                  {"webp", test::make_webp(picture)},
                                                  {"webp", test::make_webp(picture, true)},
                                                  {"gif", test::make_gif(picture)},
                                                  {"bmp", test::make_bmp(picture)}}) {
    const auto whole = decode(bytes, name);
    ASSERT_TRUE(whole.has_value());
    const std::size_t step = std::max<std::size_t>(1, bytes.size() / 200);
    std::size_t failed = 0;
    for (std::size_t n = 0; n<bytes.size(); n += n + 40> bytes.size() ? 1 : step) {
      const auto part = decode(Bytes(bytes.begin(), bytes.begin() + static_cast<long>(n)), name);
      if (!part.has_value()) {
        EXPECT_EQ(part.error().code(), ErrorCode::kCorrupt) << part.error().to_string();
        ++failed;
        continue;
      }
      EXPECT_EQ(part->patches, whole->patches) << name << " " << n << " of " << bytes.size();
    }
    EXPECT_GT(failed, 190U) << name;
  }
}

TEST(ImagePatches, AShapeOfAnotherPictureIsCorrupt) {
  for (const auto& [format, name] :
       std::vector<std::pair<MediaFormat, std::string>>{{MediaFormat::kJpeg, "jpg"},
                                                        {MediaFormat::kPng, "png"},
                                                        {MediaFormat::kWebp, "webp"},
                                                        {MediaFormat::kGif, "gif"},
                                                        {MediaFormat::kBmp, "bmp"}}) {
    const Bytes bytes = test::make_image(format, 50, 40);
    const MemoryByteSource source(bytes);
    PartShape shape = *probe(source, name, {});
    const PatchGrid grid = patch_grid(50, 40, 4096);
    std::vector<std::byte> patches(static_cast<std::size_t>(grid.bytes()));
    ++shape.width;
    EXPECT_EQ(image_patches(source, shape, grid, patches).error().code(), ErrorCode::kCorrupt);
    --shape.width;
    ++shape.encoded_bytes;
    EXPECT_EQ(image_patches(source, shape, grid, patches).error().code(), ErrorCode::kCorrupt);
    --shape.encoded_bytes;
    EXPECT_TRUE(image_patches(source, shape, grid, patches).has_value());
    patches.pop_back();
    EXPECT_EQ(image_patches(source, shape, grid, patches).error().code(),
              ErrorCode::kInvalidArgument);
  }
}

TEST(ImagePatches, DivisorsKeepThePictureAtLeastAsLargeAsItsTarget) {
  EXPECT_EQ(jpeg_divisor(800, 800, 100, 100), 8);
  EXPECT_EQ(jpeg_divisor(800, 800, 101, 100), 4);
  EXPECT_EQ(jpeg_divisor(800, 800, 401, 400), 1);
  EXPECT_EQ(jpeg_divisor(20, 20, 28, 28), 1);
}

}  // namespace
}  // namespace isocost
