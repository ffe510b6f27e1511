// PNGs decoded the fast way against libspng's pixels and errors.

#include "decode/image/internal/plain_png.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "decode/image/image_codecs.h"
#include "decode/image/internal/png_rows.h"
#include "decode/probe.h"
#include "decode/resize/orientation.h"
#include "tests/support/media.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

Bytes plain_bytes(const test::Bytes& bytes) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {first, first + bytes.size()};
}

void append_number(Bytes& to, std::uint32_t number) {
  for (const int shift : {24, 16, 8, 0}) to.push_back(static_cast<std::uint8_t>(number >> shift));
}

Bytes chunk(std::string_view type, const Bytes& data) {
  Bytes out;
  append_number(out, static_cast<std::uint32_t>(data.size()));
  out.insert(out.end(), type.begin(), type.end());
  out.insert(out.end(), data.begin(), data.end());
  append_number(out, static_cast<std::uint32_t>(
                         crc32(0, out.data() + 4, static_cast<unsigned>(out.size() - 4))));
  return out;
}

Bytes deflated(const Bytes& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  Bytes out(size);
  EXPECT_EQ(compress2(out.data(), &size, bytes.data(), static_cast<uLong>(bytes.size()), 6), Z_OK);
  out.resize(size);
  return out;
}

struct Spec {
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::uint8_t colour_type = 2;
  std::uint8_t depth = 8;
  std::uint8_t interlaced = 0;

  std::size_t row_bytes() const {
    const std::array<std::size_t, 7> channels = {1, 0, 3, 1, 2, 0, 4};
    return static_cast<std::size_t>(width) * channels[colour_type] * depth / 8;
  }
};

Bytes head(const Spec& spec) {
  Bytes ihdr;
  append_number(ihdr, static_cast<std::uint32_t>(spec.width));
  append_number(ihdr, static_cast<std::uint32_t>(spec.height));
  ihdr.insert(ihdr.end(), {spec.depth, spec.colour_type, 0, 0, spec.interlaced});
  Bytes file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  const Bytes header = chunk("IHDR", ihdr);
  file.insert(file.end(), header.begin(), header.end());
  return file;
}

Bytes file_of(const Spec& spec, const std::vector<Bytes>& chunks) {
  Bytes file = head(spec);
  for (const Bytes& one : chunks) file.insert(file.end(), one.begin(), one.end());
  return file;
}

// Rows of random differences, each after the number of its filter.
Bytes filtered_rows(const Spec& spec, std::mt19937& random, int filter) {
  Bytes rows;
  for (std::int32_t y = 0; y < spec.height; ++y) {
    rows.push_back(static_cast<std::uint8_t>(filter < 0 ? random() % 5 : filter));
    for (std::size_t i = 0; i < spec.row_bytes(); ++i) {
      rows.push_back(static_cast<std::uint8_t>(random()));
    }
  }
  return rows;
}

Bytes entries(std::size_t count, std::mt19937& random) {
  Bytes out(count);
  for (std::uint8_t& one : out) one = static_cast<std::uint8_t>(random());
  return out;
}

// "pixels", or libspng's words.
std::string outcome(const Result<Pixels>& pixels) {
  return pixels.has_value() ? "pixels" : pixels.error().to_string();
}

// Both ways must come to the same. Returns whether the file decodes.
bool same_outcome(ByteView file, std::int32_t width, std::int32_t height, Alpha alpha) {
  const auto expected = decode_any_png(file, width, height, alpha);
  const auto decoded = decode_png(file, width, height, {.alpha = alpha}, {});
  EXPECT_EQ(outcome(decoded), outcome(expected));
  if (!decoded.has_value() || !expected.has_value()) return false;
  EXPECT_EQ(decoded->width, width);
  EXPECT_EQ(decoded->height, height);
  EXPECT_TRUE(decoded->rgb == expected->rgb);
  return true;
}

// Decodes the fast way, to libspng's pixels.
void expect_fast(ByteView file, const Spec& spec) {
  for (const Alpha alpha : {Alpha::kWhite, Alpha::kDrop}) {
    EXPECT_TRUE(decode_plain_png(file, spec.width, spec.height, alpha).has_value());
    EXPECT_TRUE(same_outcome(file, spec.width, spec.height, alpha));
  }
}

// Is left to libspng, which decides whether it decodes.
void expect_left(ByteView file, const Spec& spec, bool decodes) {
  EXPECT_FALSE(decode_plain_png(file, spec.width, spec.height, Alpha::kWhite).has_value());
  EXPECT_EQ(same_outcome(file, spec.width, spec.height, Alpha::kWhite), decodes);
}

TEST(PngRows, AreTheSameWithEveryProcessorsVectors) {
  const std::vector<PngRowTarget> targets = png_row_targets();
  ASSERT_FALSE(targets.empty());
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t pixel = 1 + random() % 4;
    const std::size_t bytes = pixel * (1 + random() % (i % 10 == 0 ? 300 : 40));
    const auto filter = static_cast<PngFilter>(i % 5);
    Bytes row = entries(bytes + kPngRowSlack, random);
    const Bytes above = entries(bytes + kPngRowSlack, random);
    Bytes expected(bytes + kPngRowSlack);
    portable_png_kernels().unfilter(filter, pixel, row.data(), above.data(), bytes,
                                    expected.data());
    expected.resize(bytes);
    for (const PngRowTarget& target : targets) {
      SCOPED_TRACE(::testing::Message() << target.name << " filter " << i % 5 << " of " << pixel);
      Bytes apart(bytes + kPngRowSlack);
      target.kernels.unfilter(filter, pixel, row.data(), above.data(), bytes, apart.data());
      apart.resize(bytes);
      EXPECT_TRUE(apart == expected);
      Bytes together(kPngRowSlack);  // as near as they may be
      together.insert(together.end(), row.begin(), row.end());
      target.kernels.unfilter(filter, pixel, together.data() + kPngRowSlack, above.data(), bytes,
                              together.data());
      together.resize(bytes);
      EXPECT_TRUE(together == expected);
    }
  }
}

TEST(PngRows, LoseAlphaTheSameWithEveryProcessorsVectors) {
  std::mt19937 random(1);
  for (std::size_t pixels = 1; pixels < 300; ++pixels) {
    const Bytes rgba = entries(4 * pixels + kPngRowSlack, random);
    Bytes whitened(rgba.begin(), rgba.begin() + static_cast<std::ptrdiff_t>(4 * pixels));
    Bytes dropped = whitened;
    make_opaque(whitened, Alpha::kWhite);
    make_opaque(dropped, Alpha::kDrop);
    std::vector<PngRowTarget> targets = png_row_targets();
    targets.push_back({"portable", portable_png_kernels()});
    for (const PngRowTarget& target : targets) {
      Bytes rgb(3 * pixels + kPngRowSlack);
      target.kernels.on_white(rgba.data(), pixels, rgb.data());
      EXPECT_TRUE(std::equal(whitened.begin(), whitened.end(), rgb.begin())) << target.name;
      target.kernels.drop_alpha(rgba.data(), pixels, rgb.data());
      EXPECT_TRUE(std::equal(dropped.begin(), dropped.end(), rgb.begin())) << target.name;
    }
  }
}

TEST(PngRows, LayEveryColourOnWhiteAsMakeOpaqueDoes) {
  Bytes rgba;
  for (int i = 0; i < 65'536; ++i) {
    const auto colour = static_cast<std::uint8_t>(i);
    const auto inverse = static_cast<std::uint8_t>(255 - i);
    rgba.insert(rgba.end(), {colour, inverse, colour, static_cast<std::uint8_t>(i >> 8)});
  }
  Bytes expected = rgba;
  make_opaque(expected, Alpha::kWhite);
  rgba.resize(rgba.size() + kPngRowSlack);
  Bytes rgb(expected.size() + kPngRowSlack);
  fastest_png_kernels().on_white(rgba.data(), 65'536, rgb.data());
  rgb.resize(expected.size());
  EXPECT_TRUE(rgb == expected);
}

TEST(PlainPng, RestoresEveryFilterInEveryColourType) {
  std::mt19937 random(1);
  for (const std::uint8_t type : {0, 2, 3, 4, 6}) {
    for (int filter = -1; filter < 5; ++filter) {
      for (int i = 0; i < 20; ++i) {
        const Spec spec{std::int32_t(1 + random() % 70), std::int32_t(1 + random() % 9), type};
        SCOPED_TRACE(::testing::Message() << "type " << int{type} << " filter " << filter << ' '
                                          << spec.width << 'x' << spec.height);
        std::vector<Bytes> chunks;
        // Some indexes lie beyond a short palette: libspng shows them black.
        if (type == 3) chunks.push_back(chunk("PLTE", entries(3 * (1 + random() % 256), random)));
        chunks.push_back(chunk("IDAT", deflated(filtered_rows(spec, random, filter))));
        chunks.push_back(chunk("IEND", {}));
        expect_fast(file_of(spec, chunks), spec);
      }
    }
  }
}

TEST(PlainPng, LooksUpTransparentPalettes) {
  std::mt19937 random(2);
  for (const std::size_t alphas : {1, 17, 200}) {
    const Spec spec{61, 40, 3};
    expect_fast(
        file_of(spec, {chunk("PLTE", entries(600, random)), chunk("tRNS", entries(alphas, random)),
                       chunk("IDAT", deflated(filtered_rows(spec, random, 0))), chunk("IEND", {})}),
        spec);
  }
}

TEST(PlainPng, UsesThePaletteBeforeThePixels) {
  std::mt19937 random(3);
  const Spec spec{30, 30, 3};
  const Bytes pixels = chunk("IDAT", deflated(filtered_rows(spec, random, 0)));
  const Bytes long_one = chunk("PLTE", entries(768, random));
  const Bytes short_one = chunk("PLTE", entries(9, random));
  const Bytes end = chunk("IEND", {});
  expect_fast(file_of(spec, {long_one, short_one, pixels, end}), spec);
  expect_fast(file_of(spec, {short_one, pixels, long_one, end}), spec);
  expect_left(file_of(spec, {pixels, end}), spec, false);
}

TEST(PlainPng, JoinsPixelsOfSeveralChunks) {
  std::mt19937 random(4);
  const Spec spec{50, 20, 6};
  const Bytes stream = deflated(filtered_rows(spec, random, -1));
  std::vector<Bytes> chunks = {chunk("IDAT", {})};
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t size = std::min<std::size_t>(random() % 300, stream.size() - at);
    const auto first = stream.begin() + static_cast<std::ptrdiff_t>(at);
    chunks.push_back(chunk("IDAT", {first, first + static_cast<std::ptrdiff_t>(size)}));
    at += size;
  }
  chunks.push_back(chunk("IEND", {}));
  expect_fast(file_of(spec, chunks), spec);
  chunks.insert(chunks.begin() + 2, chunk("tEXt", {'a', 0, 'b'}));
  expect_left(file_of(spec, chunks), spec, false);
}

TEST(PlainPng, PassesOverOtherChunks) {
  std::mt19937 random(5);
  const Spec spec{9, 9, 2};
  const Bytes pixels = chunk("IDAT", deflated(filtered_rows(spec, random, -1)));
  const Bytes end = chunk("IEND", {});
  const Bytes text = chunk("tEXt", {'a', 0, 'b'});
  Bytes wrong_crc = text;
  wrong_crc.back() ^= 1;
  Bytes long_text(2 << 20, 'a');
  long_text[1] = 0;
  const Bytes unknown = chunk("ABCD", {1});  // critical by its name
  expect_fast(file_of(spec, {text, pixels, text, end}), spec);
  expect_fast(file_of(spec, {wrong_crc, pixels, wrong_crc, end}), spec);
  expect_fast(file_of(spec, {chunk("gAMA", {0, 0, 0, 0}), pixels, end, entries(999, random)}),
              spec);
  expect_fast(file_of(spec, {unknown, pixels, end}), spec);
  expect_fast(file_of(spec, {pixels, unknown, end}), spec);
  expect_fast(file_of(spec, {chunk("tEXt", long_text), pixels, end}), spec);
  expect_fast(file_of(spec, {pixels, text}), spec);
  expect_fast(file_of(spec, {pixels}), spec);
  std::vector<Bytes> many(2000, text);
  many.push_back(pixels);
  expect_fast(file_of(spec, many), spec);
  expect_left(file_of(spec, {chunk("tRNS", entries(6, random)), pixels, end}), spec, true);
  expect_left(file_of(spec, {end}), spec, false);
  Bytes cut_text = text;
  cut_text.pop_back();
  expect_left(file_of(spec, {cut_text}), spec, false);
}

TEST(PlainPng, LeavesDoubtfulPixelsToLibspng) {
  std::mt19937 random(6);
  const Spec spec{20, 20, 2};
  const Bytes rows = filtered_rows(spec, random, -1);
  const Bytes end = chunk("IEND", {});
  const auto with = [&](const Bytes& stream) {
    return file_of(spec, {chunk("IDAT", stream), end});
  };
  Bytes shorter = rows;
  shorter.pop_back();
  expect_left(with(deflated(shorter)), spec, false);
  Bytes longer = rows;
  longer.push_back(0);
  expect_left(with(deflated(longer)), spec, true);
  Bytes filter_5 = rows;
  filter_5[3 * (1 + spec.row_bytes())] = 5;
  expect_left(with(deflated(filter_5)), spec, false);
  Bytes wrong_adler = deflated(rows);
  wrong_adler.back() ^= 1;
  EXPECT_FALSE(
      decode_plain_png(with(wrong_adler), spec.width, spec.height, Alpha::kWhite).has_value());
  same_outcome(with(wrong_adler), spec.width, spec.height, Alpha::kWhite);
  Bytes trailing = deflated(rows);
  trailing.push_back(7);
  expect_fast(with(trailing), spec);
  Bytes without_adler = deflated(rows);
  without_adler.resize(without_adler.size() - 4);
  expect_left(with(without_adler), spec, true);
  Bytes wrong_crc = with(deflated(rows));
  wrong_crc[wrong_crc.size() - end.size() - 1] ^= 1;
  expect_fast(wrong_crc, spec);
  Bytes wrong_palette = chunk("PLTE", entries(9, random));
  wrong_palette.back() ^= 1;
  const Spec indexed{20, 20, 3};
  expect_left(file_of(indexed, {wrong_palette,
                                chunk("IDAT", deflated(filtered_rows(indexed, random, 0))), end}),
              indexed, false);
}

TEST(PlainPng, RefusesAnotherSizeThanTheOneProbed) {
  std::mt19937 random(7);
  const Spec spec{20, 10, 2};
  const Bytes file =
      file_of(spec, {chunk("IDAT", deflated(filtered_rows(spec, random, -1))), chunk("IEND", {})});
  expect_fast(file, spec);
  expect_left(file, {10, 20, 2}, false);
  expect_left(file, {20, 11, 2}, false);
}

TEST(PlainPng, NoMemoryIsTakenForWhatSoFewBytesCannotHold) {
  std::mt19937 random(8);
  const Bytes stream = deflated(filtered_rows({20, 10, 2}, random, -1));
  const Bytes file = file_of({13'000, 13'000, 2}, {chunk("IDAT", stream), chunk("IEND", {})});
  const auto pixels = decode_png(file, 13'000, 13'000, {}, {});
  ASSERT_FALSE(pixels.has_value());
  EXPECT_NE(pixels.error().message().find("so few bytes"), std::string::npos);
}

// Such a picture has nearly the most pixels that a file of that size can hold.
TEST(PlainPng, PicturesOfOneColourAreNotTakenForCutOff) {
  constexpr std::int32_t kSide = 4096;
  for (const Spec& spec : {Spec{kSide, kSide, 0}, Spec{kSide, kSide, 0, 1}, Spec{kSide, kSide, 2},
                           Spec{kSide, kSide, 0, 16}, Spec{1, 1, 2}}) {
    const Bytes rows(static_cast<std::size_t>(spec.height) * (1 + spec.row_bytes()));
    const Bytes file = file_of(spec, {chunk("IDAT", deflated(rows)), chunk("IEND", {})});
    EXPECT_TRUE(same_outcome(file, spec.width, spec.height, Alpha::kWhite)) << int{spec.depth};
  }
}

TEST(PlainPng, LeavesOtherKindsToLibspng) {
  std::mt19937 random(8);
  for (const Spec& spec : {Spec{8, 8, 2, 16}, Spec{8, 8, 0, 1}, Spec{8, 8, 0, 4}}) {
    expect_left(file_of(spec, {chunk("IDAT", deflated(filtered_rows(spec, random, -1))),
                               chunk("IEND", {})}),
                spec, true);
  }
  expect_left(plain_bytes(test::make_png(test::gradient(40, 30, 1), true)), {40, 30}, true);
}

Bytes read_file(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(PlainPng, MakesLibspngsPixelsOfTheGoldenFiles) {
  int fast = 0;
  for (const auto& entry : fs::directory_iterator(ISOCOST_SOURCE_DIR "/tests/decode/golden")) {
    if (entry.path().extension() != ".png") continue;
    SCOPED_TRACE(entry.path());
    const Bytes file = read_file(entry.path());
    const auto shape = probe(MemoryByteSource(std::as_bytes(std::span(file))), "png", {});
    ASSERT_TRUE(shape.has_value());
    std::int32_t width = shape->width;
    std::int32_t height = shape->height;
    if (exchanges_sides(shape->orientation)) std::swap(width, height);
    for (const Alpha alpha : {Alpha::kWhite, Alpha::kDrop}) {
      EXPECT_TRUE(same_outcome(file, width, height, alpha));
      fast += decode_plain_png(file, width, height, alpha).has_value() ? 1 : 0;
    }
  }
  // grey8, grey_alpha8, palette8, rgb8 and rgba8; those with an orientation; those whose fault is
  // not in the pixels, which more rows and a missing checksum are.
  EXPECT_EQ(fast, 2 * (5 + 9 + 9));
}

// Small files of every kind, with chunks that do not count. The last chunk of pixels ends
// kAfterPixels bytes before the file does.
constexpr std::size_t kAfterPixels = 4 + 15 + 12;

std::vector<std::pair<Spec, Bytes>> small_files() {
  std::mt19937 random(9);
  std::vector<std::pair<Spec, Bytes>> files;
  for (const std::uint8_t type : {0, 2, 3, 4, 6}) {
    const Spec spec{7, 5, type};
    const Bytes stream = deflated(filtered_rows(spec, random, -1));
    const auto middle = stream.begin() + static_cast<std::ptrdiff_t>(stream.size() / 2);
    std::vector<Bytes> chunks = {chunk("gAMA", {0, 0, 0xB1, 0x8F})};
    if (type == 3) {
      chunks.push_back(chunk("PLTE", entries(24, random)));
      chunks.push_back(chunk("tRNS", entries(5, random)));
    }
    chunks.push_back(chunk("IDAT", {stream.begin(), middle}));
    chunks.push_back(chunk("IDAT", {middle, stream.end()}));
    chunks.push_back(chunk("tEXt", {'a', 0, 'b'}));
    chunks.push_back(chunk("IEND", {}));
    files.emplace_back(spec, file_of(spec, chunks));
  }
  return files;
}

TEST(PlainPng, EndsAsLibspngDoesForEveryPrefix) {
  for (const auto& [spec, file] : small_files()) {
    for (std::size_t size = 0; size < file.size(); ++size) {
      SCOPED_TRACE(::testing::Message() << int{spec.colour_type} << " to " << size);
      const bool decodes =
          same_outcome(ByteView(file).first(size), spec.width, spec.height, Alpha::kWhite);
      constexpr std::size_t kStreamEnd = 8;  // more than its checksum and the code that ends it
      EXPECT_TRUE(decodes || size < file.size() - kAfterPixels);
      EXPECT_FALSE(decodes && size + kStreamEnd < file.size() - kAfterPixels);
    }
    EXPECT_TRUE(same_outcome(file, spec.width, spec.height, Alpha::kWhite));
  }
}

TEST(PlainPng, EndsAsLibspngDoesForEveryFlippedBit) {
  int refused = 0;
  for (const auto& [spec, file] : small_files()) {
    for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
      SCOPED_TRACE(::testing::Message() << int{spec.colour_type} << " bit " << bit);
      Bytes damaged = file;
      damaged[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
      refused += same_outcome(damaged, spec.width, spec.height, Alpha::kWhite) ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 3000);
}

// Damage below right CRCs reaches the inflating and the filters.
TEST(PlainPng, EndsAsLibspngDoesForDamagedStreams) {
  std::mt19937 random(10);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    const Spec spec{std::int32_t(1 + random() % 20), std::int32_t(1 + random() % 9), 2};
    Bytes rows = filtered_rows(spec, random, -1);
    for (std::uint8_t& value : rows) value &= 0x0F;  // so that something is left to compress
    for (std::size_t y = 0; y < static_cast<std::size_t>(spec.height); ++y) {
      rows[y * (1 + spec.row_bytes())] %= 5;
    }
    Bytes stream = deflated(rows);
    stream[random() % stream.size()] ^= static_cast<std::uint8_t>(1U << (random() % 8));
    if (random() % 4 == 0) stream.resize(random() % stream.size());
    const Bytes file = file_of(spec, {chunk("IDAT", stream), chunk("IEND", {})});
    refused += same_outcome(file, spec.width, spec.height, Alpha::kWhite) ? 0 : 1;
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace isocost
