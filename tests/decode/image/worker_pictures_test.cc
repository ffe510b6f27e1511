// TIFF, HEIC and AVIF: what is refused, what damage does, and how much memory decoding takes.
// Values are compared in tests/decode/golden_test.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "base/sanitized.h"
#include "base/units.h"
#include "decode/image/image_decoder.h"
#include "decode/probe.h"
#include "decode/sample_decoder.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"
#include "tests/support/heap_peak.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using File = std::vector<std::uint8_t>;

File file_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

fs::path golden(const std::string& name) {
  return fs::path(ISOCOST_SOURCE_DIR) / "tests/decode/golden" / name;
}

std::vector<fs::path> pictures_in(const fs::path& folder) {
  const std::set<std::string> extensions = {".tif", ".heic", ".avif"};
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (extensions.contains(entry.path().extension())) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

Result<PartShape> probed(const File& file, const ProbeLimits& limits = {}) {
  return probe(MemoryByteSource(std::as_bytes(std::span(file))), "a.jpg", limits);
}

Result<Pixels> decoded(const File& file) {
  const MemoryByteSource source(std::as_bytes(std::span(file)));
  ISOCOST_ASSIGN(const PartShape shape, probe(source, "a.jpg", {.max_pixels = 1 << 22}));
  return decode_image(source, shape, {}, {});
}

// Appends a number in the byte order of Motorola.
void append(File& file, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) file.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

struct Entry {
  std::uint16_t tag;
  std::uint16_t type;
  std::uint32_t count;
  std::uint32_t value;
};
constexpr std::uint16_t kShort = 3;
constexpr std::uint16_t kLong = 4;

// Returns a TIFF of Motorola's byte order with one strip of `pixels`, after the directory.
File tiff_of(std::vector<Entry> entries, const File& pixels) {
  const auto strip = static_cast<std::uint32_t>(8 + 2 + 12 * (entries.size() + 2) + 4);
  entries.push_back({273, kLong, 1, strip});
  entries.push_back({279, kLong, 1, static_cast<std::uint32_t>(pixels.size())});
  std::ranges::sort(entries, {}, &Entry::tag);
  File file = {'M', 'M', 0, 42};
  append(file, 8, 4);
  append(file, entries.size(), 2);
  for (const Entry& entry : entries) {
    append(file, entry.tag, 2);
    append(file, entry.type, 2);
    append(file, entry.count, 4);
    append(file, entry.type == kShort ? entry.value << 16 : entry.value, 4);
  }
  append(file, 0, 4);
  file.insert(file.end(), pixels.begin(), pixels.end());
  return file;
}

// Returns the entries of a grey picture of 4 by 2 pixels, some in place of the usual ones.
std::vector<Entry> grey(const std::vector<Entry>& others = {}) {
  std::vector<Entry> entries = {{256, kShort, 1, 4}, {257, kShort, 1, 2}, {258, kShort, 1, 8},
                                {259, kShort, 1, 1}, {262, kShort, 1, 1}, {277, kShort, 1, 1}};
  for (const Entry& other : others) {
    std::erase_if(entries, [&](const Entry& entry) { return entry.tag == other.tag; });
    entries.push_back(other);
  }
  return entries;
}
const File kEight = {0, 30, 60, 90, 120, 150, 180, 255};

TEST(Tiff, ReadsWhatWasWritten) {
  const auto pixels = decoded(tiff_of(grey(), kEight));
  ASSERT_TRUE(pixels.has_value()) << pixels.error().to_string();
  for (std::size_t i = 0; i < kEight.size(); ++i) EXPECT_EQ(pixels->rgb[3 * i + 1], kEight[i]);
}

// Pillow reads big files of Intel's byte order only.
TEST(Tiff, ReadsBigFilesOfBothByteOrders) {
  File file = {'M', 'M', 0, 43, 0, 8, 0, 0};
  append(file, 24, 8);
  file.insert(file.end(), kEight.begin(), kEight.end());
  const std::vector<Entry> entries = {{256, kShort, 1, 4}, {257, kShort, 1, 2}, {258, kShort, 1, 8},
                                      {259, kShort, 1, 1}, {262, kShort, 1, 1}, {273, kLong, 1, 16},
                                      {277, kShort, 1, 1}, {279, kLong, 1, 8}};
  append(file, entries.size(), 8);
  for (const Entry& entry : entries) {
    append(file, entry.tag, 2);
    append(file, entry.type, 2);
    append(file, entry.count, 8);
    append(file, entry.value, entry.type == kShort ? 2 : 4);
    append(file, 0, entry.type == kShort ? 6 : 4);
  }
  append(file, 0, 8);
  const auto pixels = decoded(file);
  ASSERT_TRUE(pixels.has_value()) << pixels.error().to_string();
  EXPECT_EQ(pixels->rgb.back(), 255);
}

TEST(Tiff, NamesKindsThatAreNotRead) {
  const std::vector<std::pair<std::vector<Entry>, std::string>> kinds = {
      {{{258, kShort, 1, 12}}, "12 bits a sample"},
      {{{258, kShort, 1, 32}}, "32 bits a sample"},
      {{{258, kShort, 1, 16}, {339, kShort, 1, 3}}, "no whole numbers"},
      {{{258, kShort, 1, 16}, {262, kShort, 1, 0}}, "1 samples of 16 bits"},
      {{{262, kShort, 1, 8}, {277, kShort, 1, 3}}, "colours of the number 8"},
      {{{262, kShort, 1, 6}, {277, kShort, 1, 3}}, "colours of the number 6"},
      {{{259, kShort, 1, 6}}, "a compression of the number 6"},
      {{{259, kShort, 1, 50000}}, "a compression of the number 50000"},
      {{{277, kShort, 1, 9}}, "9 samples a pixel"},
      {{{277, kShort, 1, 2}}, "samples of an unknown meaning"}};
  for (const auto& [others, what] : kinds) {
    const auto shape = probed(tiff_of(grey(others), kEight));
    ASSERT_FALSE(shape.has_value()) << what;
    EXPECT_EQ(shape.error().code(), ErrorCode::kUnsupported);
    EXPECT_THAT(shape.error().message(), HasSubstr(what));
  }
}

TEST(Tiff, ChecksSizesBeforeAnythingIsAllocated) {
  const auto code = [](const std::vector<Entry>& others) {
    const auto shape = probed(tiff_of(grey(others), kEight));
    return shape ? ErrorCode::kInternal : shape.error().code();
  };
  EXPECT_EQ(code({{256, kLong, 1, 100'000}, {257, kLong, 1, 100'000}}),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(code({{256, kLong, 1, 0xFFFFFFFF}}), ErrorCode::kCorrupt);
  EXPECT_EQ(code({{256, kLong, 1, 0}}), ErrorCode::kCorrupt);
  EXPECT_EQ(code({{322, kLong, 1, 100'000}, {323, kLong, 1, 100'000}, {324, kLong, 1, 8}}),
            ErrorCode::kResourceExhausted);
}

std::size_t number_at(const File& file, std::size_t at, std::size_t bytes) {
  std::size_t number = 0;
  for (std::size_t i = bytes; i-- > 0;) number = number << 8 | file.at(at + i);
  return number;
}

// Makes a TIFF of Intel's byte order say that each of its strips has half of its bytes.
void halve_strips(File& file) {
  constexpr std::size_t kStripBytes = 279;
  const std::size_t directory = number_at(file, 4, 4);
  for (std::size_t i = 0; i < number_at(file, directory, 2); ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (number_at(file, entry, 2) != kStripBytes) continue;
    const std::size_t bytes = number_at(file, entry + 2, 2) == kShort ? 2 : 4;
    const std::size_t count = number_at(file, entry + 4, 4);
    const std::size_t values = count * bytes <= 4 ? entry + 8 : number_at(file, entry + 8, 4);
    for (std::size_t at = values; at < values + count * bytes; at += bytes) {
      const std::size_t half = number_at(file, at, bytes) / 2;
      for (std::size_t k = 0; k < bytes; ++k) {
        file.at(at + k) = static_cast<std::uint8_t>(half >> (8 * k));
      }
    }
  }
}

// libtiff only warns of missing rows in JPEG and in CCITT's compressions.
TEST(Tiff, StripsThatEndEarlyAreDamage) {
  for (const std::string name : {"group3", "group4", "lzw", "old_lzw", "deflate", "packbits",
                                 "jpeg", "jpeg_grey", "jpeg444_progressive"}) {
    File file = file_of(golden(name + ".tif"));
    ASSERT_TRUE(decoded(file).has_value()) << name;
    halve_strips(file);
    const auto pixels = decoded(file);
    ASSERT_FALSE(pixels.has_value()) << name;
    EXPECT_THAT(pixels.error().message(), HasSubstr("cut off or damaged")) << name;
  }
}

TEST(WorkerPictures, AreKeptOutOfOtherProcesses) {
  for (int i = 0; i <= static_cast<int>(kLastFormat); ++i) {
    const auto format = static_cast<MediaFormat>(i);
    const bool is_expected = format == MediaFormat::kTiff || format == MediaFormat::kHeic ||
                             format == MediaFormat::kAvif;
    EXPECT_EQ(needs_worker(format), is_expected) << format_name(format);
  }
}

TEST(WorkerPictures, MoreThanTheLimitOfPixelsIsRefusedByTheHeader) {
  for (const std::string name : {"rgb.tif", "420.heic", "420.avif", "grid.heic", "grid.avif"}) {
    const auto shape = probed(file_of(golden(name)), {.max_pixels = 300});
    ASSERT_FALSE(shape.has_value()) << name;
    EXPECT_EQ(shape.error().code(), ErrorCode::kResourceExhausted) << name;
  }
}

TEST(WorkerPictures, AFileThatIsCutOffIsBad) {
  for (const fs::path& path : pictures_in(golden(""))) {
    const File whole = file_of(path);
    // The second picture of these files does not count, nor does what stands after the first.
    const bool has_more = path.stem() == "pages" || path.stem() == "animated" ||
                          path.stem() == "two" || path.extension() == ".tif";
    for (const std::size_t tenths : {0U, 1U, 3U, 5U, 7U, 9U}) {
      if (has_more && tenths > 4) continue;
      const File cut(whole.begin(),
                     whole.begin() + static_cast<std::ptrdiff_t>(whole.size() * tenths / 10));
      EXPECT_FALSE(decoded(cut).has_value()) << path << " " << tenths;
    }
    const File short_by_one(whole.begin(), whole.end() - 1);
    EXPECT_TRUE(has_more || !decoded(short_by_one).has_value()) << path;
  }
}

// A grid of 10 bits whose stream states 8 bits for its colours.
TEST(WorkerPictures, ColoursOfAnotherDepthThanLumaAreDamage) {
  const Result<Pixels> pixels =
      decoded(file_of(fs::path(ISOCOST_SOURCE_DIR) /
                      "tests/decode/image/corpus/worker_picture_fuzz/other_colour_depth.heic"));
  ASSERT_FALSE(pixels);
  EXPECT_EQ(pixels.error().code(), ErrorCode::kCorrupt) << pixels.error().message();
}

TEST(WorkerPictures, DamageIsAnErrorOrOtherPixels) {
  std::uint32_t state = 7;
  const auto next = [&state](std::size_t below) {
    state = state * 1'664'525U + 1'013'904'223U;
    return static_cast<std::size_t>(state >> 8) % below;
  };
  int refused = 0;
  for (const fs::path& path : pictures_in(golden(""))) {
    const File whole = file_of(path);
    for (int attempt = 0; attempt < 12; ++attempt) {
      File damaged = whole;
      const std::size_t area = attempt % 2 == 0 ? std::min<std::size_t>(500, whole.size())
                                                : whole.size();  // headers are small
      for (int i = 0; i < 3; ++i) damaged[next(area)] = static_cast<std::uint8_t>(next(256));
      const auto pixels = decoded(damaged);
      if (!pixels) ++refused;
      if (pixels) {
        EXPECT_EQ(pixels->rgb.size(),
                  static_cast<std::size_t>(std::int64_t{3} * pixels->width * pixels->height));
      }
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(WorkerPictures, TakeNoMoreMemoryThanIsCounted) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers have a malloc of their own";
  std::vector<fs::path> files = pictures_in(golden(""));
  for (const fs::path& large :
       pictures_in(fs::path(ISOCOST_SOURCE_DIR) / "tests/decode/image/large")) {
    files.push_back(large);
  }
  for (const fs::path& path : files) {
    const File file = file_of(path);
    const MemoryByteSource source(std::as_bytes(std::span(file)));
    const auto shape = probe(source, path.filename().string(), {});
    ASSERT_TRUE(shape.has_value()) << path << ": " << shape.error().to_string();
    const test::HeapPeak peak;
    ASSERT_TRUE(decode_image(source, *shape, {}, {}).has_value()) << path;
    EXPECT_GT(peak.bytes(), std::int64_t{3} * shape->width * shape->height) << path;
    EXPECT_LE(peak.bytes(), image_decoding_bytes(*shape, 1)) << path;
  }
}

// A large picture has a bound that is not far above what it takes, so that several are decoded at a
// time.
TEST(WorkerPictures, AreNotCountedManyTimesOver) {
  for (const auto& [name, most] :
       {std::pair("420.avif", 18), std::pair("444p12_alpha.avif", 32),
        std::pair("444_alpha.heic", 18), std::pair("grid_turned.heic", 20)}) {
    const auto shape =
        probed(file_of(fs::path(ISOCOST_SOURCE_DIR) / "tests/decode/image/large" / name));
    ASSERT_TRUE(shape.has_value()) << name;
    EXPECT_LE(image_decoding_bytes(*shape, 1),
              3 * kMiB + std::int64_t{shape->width} * shape->height * most)
        << name;
  }
}

TEST(WorkerPictures, ShapeIsThatOfTheDisplayedPicture) {
  const auto shape = [](const std::string& name) { return probed(file_of(golden(name))).value(); };
  const PartShape turned = shape("grid_turned.heic");
  EXPECT_EQ(turned.width, 102);
  EXPECT_EQ(turned.height, 120);
  EXPECT_EQ(turned.orientation, 1);  // libheif has turned it.
  const PartShape avif = shape("turned1.avif");
  EXPECT_EQ(avif.width, 56);
  EXPECT_EQ(avif.height, 28);
  EXPECT_EQ(avif.orientation, 8);
  const PartShape cut = shape("cut_aside.heic");
  EXPECT_EQ(cut.width, 41);
  EXPECT_EQ(cut.height, 31);
  EXPECT_EQ(shape("exif_says_nothing.avif").orientation, 1);
}

// Returns a file of one box 'ftyp', and one 'meta' of these bytes.
File heif_of(std::string_view brand, const File& meta) {
  File file;
  append(file, 20, 4);
  for (const char c :
       std::string("ftyp") + std::string(brand) + std::string(4, '\0') + std::string(brand)) {
    file.push_back(static_cast<std::uint8_t>(c));
  }
  append(file, 12 + meta.size(), 4);
  for (const char c : std::string_view("meta")) file.push_back(static_cast<std::uint8_t>(c));
  append(file, 0, 4);
  file.insert(file.end(), meta.begin(), meta.end());
  return file;
}

TEST(HeifHeader, NamesWhatItLacks) {
  const auto message = [](const File& file) {
    const auto shape = probed(file);
    return shape ? std::string() : shape.error().message();
  };
  EXPECT_THAT(message(heif_of("heic", {})), HasSubstr("a sequence of frames without a still one"));
  File codec = file_of(golden("420.avif"));
  const auto at = std::search(codec.begin(), codec.end(), "av01", "av01" + 4);
  ASSERT_NE(at, codec.end());
  std::copy_n("jpeg", 4, at);
  EXPECT_THAT(message(codec), HasSubstr("coded as 'jpeg', which is not read"));
  File other = file_of(golden("420.heic"));
  std::copy_n("avif", 4, other.begin() + 8);
  EXPECT_THAT(message(other), HasSubstr("its picture is coded as HEVC"));
}

}  // namespace
}  // namespace isocost
