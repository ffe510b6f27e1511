// Pictures that are resized and cut while they are decoded, against the same steps one by one.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "decode/image/image_decoder.h"
#include "decode/prepare/exact_image.h"
#include "decode/probe.h"
#include "decode/resize/patchify.h"
#include "decode/resize/pillow_resize.h"
#include "tests/support/media.h"

namespace isocost {
namespace {

using test::Bytes;

constexpr ExactResize kResize{ResampleFilter::kBicubic, ResizeOrder::kWidthFirst};

PartShape shape_of(const Bytes& file) { return probe(MemoryByteSource(file), "jpg", {}).value(); }

Result<std::vector<std::byte>> streamed(const Bytes& file, const Framing& framing, PatchGrid grid,
                                        ExactResize resize, Exactness exactness) {
  std::vector<std::byte> patches(static_cast<std::size_t>(grid.bytes()), std::byte{7});
  ISOCOST_TRY(framed_image_patches(MemoryByteSource(file), shape_of(file), framing, grid, resize,
                                   {.exactness = exactness}, patches, {}));
  return patches;
}

// Pixel by pixel, as EXIF defines orientations.
Pixels displayed(const Pixels& stored, int orientation) {
  const std::int32_t right = stored.width - 1;
  const std::int32_t bottom = stored.height - 1;
  Pixels out = stored;
  if (orientation > 4) std::swap(out.width, out.height);
  auto to = out.rgb.begin();
  for (std::int32_t y = 0; y < out.height; ++y) {
    for (std::int32_t x = 0; x < out.width; ++x) {
      std::int32_t from_x = orientation > 4 ? y : x;
      std::int32_t from_y = orientation > 4 ? x : y;
      if (orientation == 2 || orientation == 3 || orientation > 6) from_x = right - from_x;
      if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) {
        from_y = bottom - from_y;
      }
      const std::ptrdiff_t from = std::ptrdiff_t{from_y} * stored.width + from_x;
      to = std::copy_n(stored.rgb.begin() + 3 * from, 3, to);
    }
  }
  return out;
}

// Everything decoded, then turned, then resized, then put on black, then cut.
std::vector<std::byte> step_by_step(const Bytes& file, const Framing& framing, PatchGrid grid,
                                    ExactResize resize, ImageDecoding jpeg) {
  const PartShape shape = shape_of(file);
  const Pixels pixels =
      displayed(decode_image(MemoryByteSource(file), shape, jpeg, {}).value(), shape.orientation);
  const auto bytes = [](std::int64_t width, std::int64_t height) {
    return static_cast<std::size_t>(width * height * 3);
  };
  std::vector<std::uint8_t> resized(bytes(framing.width, framing.height));
  pillow_resize(pixels.rgb, pixels.width, pixels.height, resized, framing.width, framing.height,
                resize, portable_kernels());
  std::vector<std::uint8_t> canvas(bytes(grid.width(), grid.height()));
  const PixelArea& part = framing.part;
  for (std::int32_t y = 0; y < part.height; ++y) {
    for (std::int32_t x = 0; x < part.width; ++x) {
      const std::int32_t from_x = part.x + x;
      const std::int32_t from_y = part.y + y;
      if (from_x < 0 || from_y < 0 || from_x >= framing.width || from_y >= framing.height) continue;
      for (std::size_t c = 0; c < 3; ++c) {
        canvas[bytes(grid.width(), y) + static_cast<std::size_t>(x) * 3 + c] =
            resized[bytes(framing.width, from_y) + static_cast<std::size_t>(from_x) * 3 + c];
      }
    }
  }
  std::vector<std::byte> patches(static_cast<std::size_t>(grid.bytes()));
  patchify(canvas, grid, patches);
  return patches;
}

TEST(FramedImage, OfAnySizeIsThatOfTheStepsOneByOne) {
  std::mt19937 random(3);
  const auto below = [&random](std::int32_t most) {
    return static_cast<std::int32_t>(1 + random() % static_cast<std::uint32_t>(most));
  };
  for (int i = 0; i < 120; ++i) {
    const std::int32_t width = below(i % 3 == 0 ? 900 : 90);
    const std::int32_t height = below(i % 4 == 0 ? 700 : 70);
    const int orientation = i % 2 == 0 ? 1 : 1 + i / 2 % 8;
    const test::JpegSpec spec{
        .orientation = orientation, .progressive = i % 5 == 0, .subsampled = i % 2 == 0};
    const Bytes file = test::make_jpeg(test::gradient(width, height, 1), spec);
    const PatchGrid grid{2 * below(4), 2 * below(4), i % 2 == 0 ? 14 : 16};
    const ExactResize resize{kResize.filter,
                             i % 3 == 0 ? ResizeOrder::kPillow13 : ResizeOrder::kWidthFirst};
    Framing framing = whole(grid);
    if (i % 2 == 0) {  // a part of a larger or a smaller picture
      framing.width = below(300);
      framing.height = below(300);
      framing.part.x = below(200) - 100;
      framing.part.y = below(200) - 100;
    }
    const auto made = streamed(file, framing, grid, resize, Exactness::kExact);
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_EQ(*made, step_by_step(file, framing, grid, resize, {}))
        << width << 'x' << height << ", orientation " << orientation << ", to " << framing.width
        << 'x' << framing.height;
  }
}

TEST(FramedImage, OfEachGoldenJpegIsThatOfTheStepsOneByOne) {
  const PatchGrid grid{4, 6, 14};
  int seen = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(ISOCOST_SOURCE_DIR "/tests/decode/golden")) {
    if (entry.path().extension() != ".jpg") continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    const Bytes file = test::text_bytes(std::string{std::istreambuf_iterator<char>(stream), {}});
    const auto made = streamed(file, whole(grid), grid, kResize, Exactness::kExact);
    ASSERT_TRUE(made.has_value()) << entry.path() << ": " << made.error().message();
    EXPECT_EQ(*made, step_by_step(file, whole(grid), grid, kResize, {})) << entry.path();
    ++seen;
  }
  EXPECT_GE(seen, 3);  // grey, CMYK and YCCK are among them
}

TEST(FramedImage, IsScaledDownWhileItIsDecodedIfFast) {
  const Bytes file = test::make_jpeg(test::gradient(641, 483, 2), {.subsampled = true});
  const PatchGrid grid{8, 10, 14};  // 112 rows of 140 pixels: a quarter
  const auto made = streamed(file, whole(grid), grid, kResize, Exactness::kFast);
  ASSERT_TRUE(made.has_value());
  ExactResize coarse = kResize;
  coarse.exactness = Exactness::kFast;
  EXPECT_EQ(*made, step_by_step(file, whole(grid), grid, coarse, {4, Exactness::kFast}));
}

TEST(FramedImage, OfAFileThatIsCutOffIsAnErrorThoughTheCutIsBelowWhatIsSeen) {
  for (const bool progressive : {false, true}) {
    const Bytes file = test::make_jpeg(test::gradient(200, 300, 3), {.progressive = progressive});
    const PatchGrid grid{2, 2, 14};
    const Framing top{200, 300, {0, 0, 28, 28}};
    const PartShape shape = shape_of(file);
    ASSERT_TRUE(streamed(file, top, grid, kResize, Exactness::kExact).has_value());
    for (std::size_t n = file.size() / 2; n < file.size(); n += file.size() / 40) {
      PartShape cut = shape;
      cut.encoded_bytes = static_cast<std::int64_t>(n);
      std::vector<std::byte> patches(static_cast<std::size_t>(grid.bytes()));
      const Bytes some(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n));
      const Status made =
          framed_image_patches(MemoryByteSource(some), cut, top, grid, kResize, {}, patches, {});
      ASSERT_FALSE(made.has_value()) << n << " of " << file.size();
      EXPECT_EQ(made.error().code(), ErrorCode::kCorrupt);
    }
  }
}

// These files cause warnings of libjpeg after which every pixel is there.
TEST(FramedImage, OddJpegsAreThoseOfTheSamePixels) {
  const PatchGrid grid{2, 2, 14};
  const Bytes file = test::make_jpeg(50, 40);
  const auto wanted = streamed(file, whole(grid), grid, kResize, Exactness::kExact);
  ASSERT_TRUE(wanted.has_value());
  Bytes next_jfif = file;
  next_jfif[11] = std::byte{2};  // the major version
  const auto of_next = streamed(next_jfif, whole(grid), grid, kResize, Exactness::kExact);
  ASSERT_TRUE(of_next.has_value()) << of_next.error().message();
  EXPECT_EQ(*of_next, *wanted);
  const auto tables = std::ranges::search(file, Bytes{std::byte{0xFF}, std::byte{0xDB}}).begin();
  // Around the 4 KiB that are read at once, and as many as may be.
  for (const Bytes& stray : {Bytes(1), Bytes(4093), Bytes(4094), Bytes(4095), Bytes(4096),
                             Bytes(4097), Bytes{std::byte{0xFF}, std::byte{0}}, Bytes(65'536)}) {
    Bytes padded = file;
    padded.insert(padded.begin() + (tables - file.begin()), stray.begin(), stray.end());
    const auto of_padded = streamed(padded, whole(grid), grid, kResize, Exactness::kExact);
    ASSERT_TRUE(of_padded.has_value()) << of_padded.error().message();
    EXPECT_EQ(*of_padded, *wanted);
  }
  Bytes flooded = file;
  flooded.insert(flooded.begin() + (tables - file.begin()), 65'537, std::byte{0});
  EXPECT_EQ(probe(MemoryByteSource(flooded), "jpg", {}).error().code(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace isocost
