// JPEGs of which only a part is decoded, against the same part of the whole picture.

#include <gtest/gtest.h>

// jpeglib.h wants stdio.h before it.
#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "decode/image/image_codecs.h"
#include "decode/image/jpeg_rows.h"
#include "decode/prepare/exact_image.h"
#include "decode/probe.h"
#include "decode/resize/limited_rows.h"
#include "tests/support/media.h"

namespace isocost {
namespace {

using test::Bytes;

enum class Scans { kOne, kOneEach, kProgressive, kFirstOfProgressive };

struct Coding {
  int channels = 3;
  // Sampling factors of the first channel; those of the others are 1.
  int horizontal = 1;
  int vertical = 1;
  Scans scans = Scans::kOne;
  int restart_rows = 0;  // 0: no restart markers
};

std::string text(const Coding& coding) {
  return std::to_string(coding.channels) + " channels, " + std::to_string(coding.horizontal) + "x" +
         std::to_string(coding.vertical) + ", scans " +
         std::to_string(static_cast<int>(coding.scans)) + ", restarts " +
         std::to_string(coding.restart_rows);
}

void choose_scans(jpeg_compress_struct& jpeg, Scans scans) {
  // Scripts outlive the call: libjpeg keeps the pointer.
  static constexpr std::array<jpeg_scan_info, 4> kOneEach{
      {{1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}, {1, {3}, 0, 63, 0, 0}}};
  // Blocks' means, and not to the last bit: decoders smooth what comes of it.
  static constexpr std::array<jpeg_scan_info, 4> kMeans{
      {{1, {0}, 0, 0, 0, 1}, {1, {1}, 0, 0, 0, 1}, {1, {2}, 0, 0, 0, 1}, {1, {3}, 0, 0, 0, 1}}};
  if (scans == Scans::kProgressive) jpeg_simple_progression(&jpeg);
  if (scans == Scans::kOneEach || scans == Scans::kFirstOfProgressive) {
    jpeg.scan_info = scans == Scans::kOneEach ? kOneEach.data() : kMeans.data();
    jpeg.num_scans = jpeg.input_components;
  }
}

// Blobs of noise, in which every error shows.
std::vector<std::uint8_t> noise(std::size_t bytes, std::size_t row, std::mt19937& random) {
  std::vector<std::uint8_t> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto value = static_cast<std::uint8_t>(random());
    out[i] = i < row || random() % 4 == 0
                 ? value
                 : static_cast<std::uint8_t>((3 * out[i - row] + value) / 4);
  }
  return out;
}

Bytes encode(std::int32_t width, std::int32_t height, const Coding& coding, std::mt19937& random) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &out, &size);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = coding.channels;
  constexpr std::array<J_COLOR_SPACE, 5> kSpaces{JCS_UNKNOWN, JCS_GRAYSCALE, JCS_UNKNOWN, JCS_RGB,
                                                 JCS_CMYK};
  jpeg.in_color_space = kSpaces.at(static_cast<std::size_t>(coding.channels));
  jpeg_set_defaults(&jpeg);
  if (coding.channels == 4) jpeg_set_colorspace(&jpeg, JCS_YCCK);
  jpeg.comp_info[0].h_samp_factor = coding.horizontal;
  jpeg.comp_info[0].v_samp_factor = coding.vertical;
  if (coding.channels == 4) {  // the key's are those of the luma
    jpeg.comp_info[3].h_samp_factor = coding.horizontal;
    jpeg.comp_info[3].v_samp_factor = coding.vertical;
  }
  jpeg.restart_in_rows = coding.restart_rows;
  choose_scans(jpeg, coding.scans);
  const auto row = static_cast<std::size_t>(width) * static_cast<std::size_t>(coding.channels);
  auto pixels = noise(row * static_cast<std::size_t>(height), row, random);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW line = pixels.data() + jpeg.next_scanline * row;
    jpeg_write_scanlines(&jpeg, &line, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  const std::unique_ptr<unsigned char, decltype(&std::free)> owner(out, std::free);
  const auto* bytes = reinterpret_cast<const std::byte*>(out);
  return {bytes, bytes + size};
}

std::int32_t between(std::int32_t least, std::int32_t most, std::mt19937& random) {
  return std::uniform_int_distribution<std::int32_t>(least, most)(random);
}

Coding any_coding(std::mt19937& random) {
  constexpr std::array<int, 4> kChannels{3, 3, 1, 4};
  constexpr std::array<std::array<int, 2>, 6> kSamplings{
      {{1, 1}, {2, 1}, {2, 2}, {2, 2}, {1, 2}, {4, 1}}};
  const auto [horizontal, vertical] = kSamplings.at(random() % kSamplings.size());
  return {.channels = kChannels.at(random() % 4),
          .horizontal = horizontal,
          .vertical = vertical,
          .scans = static_cast<Scans>(random() % 4),
          .restart_rows = static_cast<int>(random() % 3)};
}

struct Crop {
  PatchGrid grid;
  Framing framing;
  ExactResize resize;
  Exactness exactness = Exactness::kExact;
};

// Returns a random part of a picture that is resized to any size, the picture's own included.
Crop any_crop(const PartShape& shape, std::mt19937& random) {
  Crop crop;
  crop.grid = {2 * between(1, 2, random), 2 * between(1, 2, random), 14};
  const bool is_as_large = random() % 4 == 0;
  crop.framing.width = is_as_large ? shape.width : between(1, 300, random);
  crop.framing.height = is_as_large ? shape.height : between(1, 300, random);
  crop.framing.part = {between(-20, crop.framing.width, random),
                       between(-20, crop.framing.height, random), crop.grid.width(),
                       crop.grid.height()};
  crop.resize.filter = random() % 2 == 0 ? ResampleFilter::kBicubic : ResampleFilter::kBilinear;
  crop.resize.order = random() % 2 == 0 ? ResizeOrder::kPillow13 : ResizeOrder::kWidthFirst;
  crop.exactness = random() % 2 == 0 ? Exactness::kFast : Exactness::kExact;
  return crop;
}

using Patches = std::vector<std::byte>;

Result<Patches> crop_alone(const Bytes& file, const PartShape& shape, const Crop& crop) {
  Patches patches(static_cast<std::size_t>(crop.grid.bytes()));
  ISOCOST_TRY(framed_image_patches(MemoryByteSource(file), shape, crop.framing, crop.grid,
                                   crop.resize, {.exactness = crop.exactness}, patches, {}));
  return patches;
}

Result<Patches> crop_of_whole(const Bytes& file, const PartShape& shape, const Crop& crop) {
  ISOCOST_ASSIGN(const Pixels whole, displayed_image(MemoryByteSource(file), shape, crop.framing,
                                                     {.exactness = crop.exactness}, {}));
  Patches patches(static_cast<std::size_t>(crop.grid.bytes()));
  ExactResize resize = crop.resize;
  resize.exactness = crop.exactness;
  ISOCOST_TRY(framed_patches(whole, crop.framing, crop.grid, resize, patches, {}));
  return patches;
}

std::string outcome(const Result<Patches>& patches) {
  return patches.has_value() ? "decodes" : patches.error().message();
}

PartShape shape_of(const Bytes& file) { return probe(MemoryByteSource(file), "jpg", {}).value(); }

TEST(JpegRows, OfAnyPartMakeThePatchesOfTheWholePicture) {
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    const std::int32_t width = between(1, i % 2 == 0 ? 60 : 400, random);
    const std::int32_t height = between(1, i % 3 == 0 ? 60 : 400, random);
    const Coding coding = any_coding(random);
    const Bytes file = encode(width, height, coding, random);
    const PartShape shape = shape_of(file);
    for (int j = 0; j < 3; ++j) {
      const Crop crop = any_crop(shape, random);
      const Framing& framing = crop.framing;
      SCOPED_TRACE(std::to_string(width) + "x" + std::to_string(height) + ", " + text(coding) +
                   ", to " + std::to_string(framing.width) + "x" + std::to_string(framing.height) +
                   ", part at " + std::to_string(framing.part.x) + ", " +
                   std::to_string(framing.part.y) + ", exactness " +
                   std::to_string(static_cast<int>(crop.exactness)));
      const auto whole = crop_of_whole(file, shape, crop);
      ASSERT_TRUE(whole.has_value()) << whole.error().message();
      const auto alone = crop_alone(file, shape, crop);
      ASSERT_TRUE(alone.has_value()) << alone.error().message();
      ASSERT_TRUE(*alone == *whole);
    }
  }
}

// More of them than are passed over at once, and rows of blocks of every height.
TEST(JpegRows, OfAPartFarDownAreThoseOfTheWholePicture) {
  std::mt19937 random(9);
  for (const int vertical : {1, 2, 3, 4}) {
    for (const Scans scans : {Scans::kOne, Scans::kProgressive}) {
      const Coding coding{.vertical = vertical, .scans = scans};
      const Bytes file = encode(40, 3000, coding, random);
      const PartShape shape = shape_of(file);
      for (const Exactness exactness : {Exactness::kExact, Exactness::kFast}) {
        for (const std::int32_t height : {3000, 1490, 700}) {  // fast, also scaled down by 2 and 4
          const PatchGrid grid{2, 2, 14};
          const Framing framing{40, height, {5, height * 2 / 3, grid.width(), grid.height()}};
          const Crop crop{grid, framing, {}, exactness};
          const auto whole = crop_of_whole(file, shape, crop);
          const auto alone = crop_alone(file, shape, crop);
          ASSERT_TRUE(whole.has_value() && alone.has_value()) << text(coding);
          EXPECT_TRUE(*alone == *whole) << text(coding) << ", " << height;
        }
      }
    }
  }
}

// The part in the middle of a picture, with rows above it and below that are passed over.
Crop middle_of(const PartShape& shape, Exactness exactness) {
  const PatchGrid grid{4, 4, 14};
  const PixelArea part{(shape.width - grid.width()) / 2, (shape.height - grid.height()) / 2,
                       grid.width(), grid.height()};
  return {grid, {shape.width, shape.height, part}, {}, exactness};
}

void expect_same_outcome(const Bytes& file, PartShape shape, const std::string& what,
                         int& failures) {
  shape.encoded_bytes = static_cast<std::int64_t>(file.size());
  for (const Exactness exactness : {Exactness::kExact, Exactness::kFast}) {
    const Crop crop = middle_of(shape, exactness);
    const auto whole = crop_of_whole(file, shape, crop);
    const auto alone = crop_alone(file, shape, crop);
    ASSERT_EQ(outcome(alone), outcome(whole)) << what;
    if (whole.has_value()) {
      ASSERT_TRUE(*alone == *whole) << what;
    } else {
      ++failures;
    }
  }
}

TEST(JpegRows, OfAPartFindWhatIsCutOffOrDamagedAnywhere) {
  std::mt19937 random(11);
  int failures = 0;
  for (int i = 0; i < 16; ++i) {
    const Coding coding = any_coding(random);
    const Bytes file = encode(200, 256, coding, random);
    const PartShape shape = shape_of(file);
    for (int j = 0; j < 20; ++j) {
      const auto at =
          static_cast<std::size_t>(between(0, static_cast<std::int32_t>(file.size()) - 1, random));
      const std::string what = text(coding) + ", byte " + std::to_string(at);
      Bytes damaged = file;
      damaged[at] ^= static_cast<std::byte>(1 << random() % 8);
      expect_same_outcome(damaged, shape, what + " damaged", failures);
      damaged[at] = std::byte{0xff};
      expect_same_outcome(damaged, shape, what + " is 255", failures);
      const Bytes begun(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(at));
      expect_same_outcome(begun, shape, what + " is missing, and the rest", failures);
    }
  }
  EXPECT_GT(failures, 16 * 20 * 2);  // all that are cut off, and others
}

ByteView view(const Bytes& file) {
  return {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
}

// Returns the offsets of the restart markers.
std::vector<std::size_t> restarts_of(const Bytes& file) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i + 1 < file.size(); ++i) {
    const auto next = std::to_integer<int>(file[i + 1]);
    if (file[i] == std::byte{0xFF} && next >= 0xD0 && next <= 0xD7) found.push_back(i);
  }
  return found;
}

// Returns the file without its bytes from `begin` to `end`.
Bytes without(Bytes file, std::size_t begin, std::size_t end) {
  file.erase(file.begin() + static_cast<std::ptrdiff_t>(begin),
             file.begin() + static_cast<std::ptrdiff_t>(end));
  return file;
}

TEST(JpegRows, OneRestartMarkerMayBeMissingAndNoMoreThanThat) {
  std::mt19937 random(4);
  const Bytes file = encode(64, 256, {.restart_rows = 1}, random);
  const std::vector<std::size_t> at = restarts_of(file);
  ASSERT_EQ(at.size(), 31U);
  const std::size_t end = file.size() - 2;  // of the picture
  const auto decodes = [](const Bytes& bytes) {
    return decode_jpeg(view(bytes), 64, 256, {}, {}).has_value();
  };
  EXPECT_TRUE(decodes(file));
  EXPECT_TRUE(decodes(without(file, at[3], at[3] + 2)));
  EXPECT_FALSE(decodes(without(without(file, at[9], at[9] + 2), at[3], at[3] + 2)));
  EXPECT_FALSE(decodes(without(file, at[1], at[3]))) << "two intervals";
  EXPECT_FALSE(decodes(without(file, at[1], at[9]))) << "as many as there are markers";
  EXPECT_FALSE(decodes(without(file, at[0], end))) << "cut off at a marker";
  EXPECT_FALSE(decodes(without(file, at[15], end)));
  EXPECT_FALSE(decodes(without(file, (at[3] + at[4]) / 2, end))) << "cut off between two";
  const Bytes cut = without(file, (at[20] + at[21]) / 2, end);
  EXPECT_FALSE(decodes(without(cut, at[3], at[3] + 2)));
}

TEST(JpegRows, LeaveOutColumnsThatAreNotNeeded) {
  std::mt19937 random(13);
  for (const Coding& coding : {Coding{}, Coding{.horizontal = 2, .vertical = 2},
                               Coding{.scans = Scans::kProgressive}, Coding{.channels = 1}}) {
    const Bytes file = encode(800, 16, coding, random);
    const auto rows = JpegRows::open(view(file), 800, 16, {}, {});
    ASSERT_TRUE(rows.has_value());
    const auto begin = (*rows)->restrict_columns(400, 500);
    ASSERT_TRUE(begin.has_value());
    EXPECT_GT(*begin, 300) << text(coding);
    EXPECT_LE(*begin, 400) << text(coding);
    EXPECT_EQ((*rows)->width(), 800);
    // There is room for all of a row, and nothing is written where columns from 600 would be.
    std::array<const std::uint8_t*, kResampleBatch> read{};
    ASSERT_TRUE((*rows)->read(0, read).has_value());
    const auto is_zero = [](std::uint8_t value) { return value == 0; };
    const std::uint8_t* const row = read.front();
    EXPECT_FALSE(std::all_of(row, row + std::ptrdiff_t{400 - *begin + 1} * 3, is_zero));
    EXPECT_TRUE(std::all_of(row + std::ptrdiff_t{600 - *begin} * 3,
                            row + std::ptrdiff_t{800 - *begin} * 3, is_zero))
        << text(coding);
  }
}

// All scans of a progressive file are read before its first row, which may take minutes.
TEST(JpegRows, ScansAreReadAsLongAsTheLimitAllows) {
  std::mt19937 random(14);
  const Bytes file = encode(800, 800, {.scans = Scans::kProgressive}, random);
  const DecodeLimit any(std::chrono::hours(1));
  ASSERT_TRUE(JpegRows::open(view(file), 800, 800, {}, any).has_value());
  const auto late = JpegRows::open(view(file), 800, 800, {}, DecodeLimit(any.used() / 4));
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), ErrorCode::kResourceExhausted);
}

TEST(JpegRows, ArePassedOverUntilAStop) {
  std::mt19937 random(15);
  const Bytes file = encode(16, 4096, {}, random);
  std::stop_source stop;
  const auto rows = JpegRows::open(view(file), 16, 4096, {},
                                   DecodeLimit(std::chrono::hours(1), stop.get_token()));
  ASSERT_TRUE(rows.has_value());
  std::array<const std::uint8_t*, kResampleBatch> read{};
  ASSERT_TRUE((*rows)->read(1000, read).has_value());
  stop.request_stop();
  const Status stopped = (*rows)->read(3000, read);
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code(), ErrorCode::kCancelled);
}

TEST(LimitedRows, EndSoonAfterAStop) {
  constexpr std::int32_t kHeight = 4096;
  const std::vector<std::uint8_t> rgb(std::size_t{kHeight} * 3);
  MemoryRows memory(rgb, 1, kHeight);
  std::stop_source stop;
  const DecodeLimit limit(std::chrono::hours(1), stop.get_token());
  LimitedRows rows(memory, limit);
  std::array<const std::uint8_t*, kResampleBatch> read{};
  ASSERT_TRUE(rows.read(0, read).has_value());
  stop.request_stop();
  std::int32_t y = 0;
  Status last;
  while (y < kHeight && last.has_value()) last = rows.read(y += kResampleBatch, read);
  ASSERT_FALSE(last.has_value());
  EXPECT_EQ(last.error().code(), ErrorCode::kCancelled);
  EXPECT_LE(y, 128);
}

}  // namespace
}  // namespace isocost
