// BMP kinds for which there is no other decoder's picture. Those that Pillow reads are goldens.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/image/image_codecs.h"
#include "decode/probe.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

using Bytes = std::vector<std::uint8_t>;

void append(Bytes& to, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i, number >>= 8) to.push_back(static_cast<std::uint8_t>(number));
}

struct BmpKind {
  std::uint32_t header = 40;
  std::uint32_t bits = 32;
  std::uint32_t compression = 0;
  std::vector<std::uint32_t> masks;  // after a header of 40 bytes, within a longer one
};

// Makes a BMP of a row of pixels, whose offset is 0.
Bytes bmp(const BmpKind& kind, std::int32_t width, std::int32_t height, const Bytes& body) {
  Bytes file = {'B', 'M'};
  append(file, 0, 12);
  append(file, kind.header, 4);
  append(file, static_cast<std::uint32_t>(width), 4);
  append(file, static_cast<std::uint32_t>(height), 4);
  append(file, 1, 2);
  append(file, kind.bits, 2);
  append(file, kind.compression, 4);
  append(file, 0, 20);
  for (const std::uint32_t mask : kind.masks) append(file, mask, 4);
  if (kind.header > 40) file.resize(14 + kind.header);
  file.insert(file.end(), body.begin(), body.end());
  return file;
}

Result<Pixels> decode(const Bytes& file, Alpha alpha = Alpha::kWhite) {
  const MemoryByteSource source(std::as_bytes(std::span(file)));
  ISOCOST_ASSIGN(const PartShape shape, probe(source, "a.bmp", {}));
  return decode_image(source, shape, {.alpha = alpha}, {});
}

Bytes rgb_of(const Bytes& file, Alpha alpha = Alpha::kWhite) {
  const auto pixels = decode(file, alpha);
  EXPECT_TRUE(pixels.has_value()) << pixels.error().to_string();
  return pixels ? pixels->rgb : Bytes();
}

std::string refusal(const Bytes& file) {
  const auto pixels = decode(file);
  return pixels ? "" : pixels.error().message();
}

const BmpKind kAlpha{56, 32, 3, {0xFF0000, 0xFF00, 0xFF, 0xFF000000}};

TEST(Bmp, OpacityIsAbsentWhereItIsZeroEverywhere) {
  EXPECT_EQ(rgb_of(bmp(kAlpha, 2, 1, {1, 2, 3, 0, 4, 5, 6, 0})), Bytes({3, 2, 1, 6, 5, 4}));
}

TEST(Bmp, OpacityCountsWhereOnePixelHasSome) {
  const Bytes file = bmp(kAlpha, 2, 1, {1, 2, 3, 0, 4, 5, 6, 255});
  EXPECT_EQ(rgb_of(file), Bytes({255, 255, 255, 6, 5, 4}));
  EXPECT_EQ(rgb_of(file, Alpha::kDrop), Bytes({3, 2, 1, 6, 5, 4}));
}

TEST(Bmp, MasksOfFewBitsAreSpreadToEight) {
  const BmpKind four{40, 16, 3, {0xF00, 0xF0, 0xF}};
  EXPECT_EQ(rgb_of(bmp(four, 2, 1, {0x5A, 0xF0, 0xFF, 0x0F})), Bytes({0, 85, 170, 255, 255, 255}));
  const BmpKind with_alpha{40, 16, 6, {0xF00, 0xF0, 0xF, 0xF000}};
  EXPECT_EQ(rgb_of(bmp(with_alpha, 2, 1, {0x5A, 0x00, 0xFF, 0xFF})),
            Bytes({255, 255, 255, 255, 255, 255}));
}

TEST(Bmp, MasksOfManyBitsGiveTheirUpperOnes) {
  const BmpKind ten{40, 32, 3, {0x3FF, 0xFFC00, 0x3FF00000}};
  Bytes body;
  append(body, 1023U | (512U << 10) | (3U << 20), 4);
  EXPECT_EQ(rgb_of(bmp(ten, 1, 1, body)), Bytes({255, 128, 0}));
}

TEST(Bmp, RunsMayMoveAndLeaveRowsOut) {
  const BmpKind runs{40, 8, 1, {}};
  // Begins at the bottom: one pixel, then a pixel right above at x = 2, then the end.
  Bytes body;
  for (std::uint32_t i = 0; i < 256; ++i) append(body, i * 0x10101, 4);
  for (const int byte : {1, 7, 0, 2, 1, 1, 1, 9, 0, 1})
    body.push_back(static_cast<std::uint8_t>(byte));
  const Bytes expected = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                          0, 9, 9, 9, 7, 7, 7, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(rgb_of(bmp(runs, 3, 3, body)), expected);
  // A row may be empty.
  body.resize(1024);
  for (const int byte : {3, 7, 0, 0, 0, 0, 3, 9, 0, 1})
    body.push_back(static_cast<std::uint8_t>(byte));
  const Bytes with_gap = {9, 9, 9, 9, 9, 9, 9, 9, 9, 0, 0, 0, 0, 0,
                          0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7, 7};
  EXPECT_EQ(rgb_of(bmp(runs, 3, 3, body)), with_gap);
}

TEST(Bmp, RunsThatEndEarlyAreCutOff) {
  const BmpKind runs{40, 8, 1, {}};
  Bytes body(1024);
  for (const int byte : {3, 7, 0, 0, 2, 7}) body.push_back(static_cast<std::uint8_t>(byte));
  EXPECT_EQ(refusal(bmp(runs, 3, 3, body)), "cut off: its runs of pixels end early");
}

TEST(Bmp, KindsThatAreNotReadAreNamedByTheHeader) {
  EXPECT_EQ(refusal(bmp({44, 24, 0, {}}, 1, 1, Bytes(4))),
            "a BMP header of 44 bytes is not read: convert it");
  EXPECT_EQ(refusal(bmp({40, 24, 4, {}}, 1, 1, Bytes(4))),
            "BMP of 24 bits a pixel and compression 4 is not decoded: convert it");
  EXPECT_EQ(refusal(bmp({40, 16, 3, {0xF0F, 0xF0, 0}}, 1, 1, Bytes(4))),
            "its BMP masks are of bits that are not neighbours, which is not read: convert it");
}

}  // namespace
}  // namespace isocost
