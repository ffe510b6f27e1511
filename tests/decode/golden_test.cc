// Decoded pixels against those of other decoders. Scripts in golden/ made both the media and the
// pixels.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libdeflate.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_decoder.h"
#include "decode/image/picture_codecs.h"
#include "decode/prepare/exact_image.h"
#include "decode/probe.h"
#include "decode/recipes/internal/native28_grid.h"
#include "decode/shape/sample_shape.h"
#include "decode/video/video.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

fs::path golden_folder() { return fs::path(ISOCOST_SOURCE_DIR) / "tests/decode/golden"; }

std::vector<std::uint8_t> bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Reads a binary PPM without comments.
Pixels read_ppm(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string magic;
  int most = 0;
  Pixels pixels;
  stream >> magic >> pixels.width >> pixels.height >> most;
  stream.get();
  pixels.rgb.assign(std::istreambuf_iterator<char>(stream), {});
  EXPECT_EQ(magic, "P6");
  EXPECT_EQ(pixels.rgb.size(),
            static_cast<std::size_t>(std::int64_t{3} * pixels.width * pixels.height));
  return pixels;
}

Result<Pixels> decode_stored(ByteView file, const PartShape& shape,
                             Truncated truncated = Truncated::kBad) {
  return picture_codec(shape.format)
      ->decode(file, shape.width, shape.height, {.truncated = truncated}, {});
}

// The displayed picture, put together from its patches. Its sides are multiples of 28, so that
// nothing is scaled.
Result<Pixels> from_patches(const ByteSource& source, const PartShape& shape) {
  const PatchGrid grid = patch_grid(shape.width, shape.height, 4096);
  std::vector<std::byte> patches(static_cast<std::size_t>(grid.bytes()));
  ISOCOST_TRY(framed_image_patches(source, shape, whole(grid), grid, {}, {}, patches, {}));
  Pixels pixels{shape.width, shape.height, {}};
  for (std::int32_t y = 0; y < shape.height; ++y) {
    for (std::int32_t x = 0; x < shape.width; ++x) {
      const std::int32_t group = (y / 28) * (grid.columns / 2) + x / 28;
      const std::int32_t patch = 4 * group + 2 * (y % 28 / 14) + x % 28 / 14;
      const auto at =
          static_cast<std::size_t>(std::int64_t{588} * patch + 3 * (14 * (y % 14) + x % 14));
      for (std::size_t c = 0; c < 3; ++c) {
        pixels.rgb.push_back(static_cast<std::uint8_t>(patches[at + c]));
      }
    }
  }
  return pixels;
}

// The last frame, not scaled.
Result<Pixels> last_frame(const ByteSource& source, const PartShape& shape) {
  Pixels pixels{shape.width, shape.height, {}};
  const std::vector<std::int64_t> times = {shape.duration_us - 1};
  ISOCOST_TRY(video_frames(source, shape, times, shape.width, shape.height,
                           [&](std::size_t, std::span<const std::uint8_t> rgb) -> Status {
                             pixels.rgb.assign(rgb.begin(), rgb.end());
                             return {};
                           }));
  return pixels;
}

Result<Pixels> decode(const fs::path& file) {
  const std::vector<std::uint8_t> bytes = bytes_of(file);
  const MemoryByteSource source(std::as_bytes(std::span(bytes)));
  ISOCOST_ASSIGN(const PartShape shape, probe(source, file.filename().string(), {}));
  if (shape.modality == Modality::kVideo) return last_frame(source, shape);
  if (shape.orientation > 1) return from_patches(source, shape);
  return decode_stored(bytes, shape);
}

int largest_difference(const Pixels& a, const Pixels& b) {
  int largest = 0;
  for (std::size_t i = 0; i < a.rgb.size(); ++i) {
    largest = std::max(largest, std::abs(a.rgb[i] - b.rgb[i]));
  }
  return largest;
}

// JPEG and WebP are read by the same libraries as the record, videos by decoders of formats that
// define every bit, and the rest is lossless: all must be equal. Colours of HEIC are converted by
// another version of libheif, which rounds differently.
int tolerance(const fs::path& media) {
  const std::string name = media.filename().string();
  return name.ends_with(".heic") || name == "heic_called.jpg" ? 1 : 0;
}

class Golden : public testing::TestWithParam<fs::path> {};

TEST_P(Golden, PixelsAreThoseOfAnotherDecoder) {
  const Pixels expected = read_ppm(GetParam().string() + ".ppm");
  const auto decoded = decode(GetParam());
  ASSERT_TRUE(decoded.has_value()) << decoded.error().to_string();
  ASSERT_EQ(decoded->width, expected.width);
  ASSERT_EQ(decoded->height, expected.height);
  ASSERT_EQ(decoded->rgb.size(), expected.rgb.size());
  EXPECT_LE(largest_difference(*decoded, expected), tolerance(GetParam()));
}

// Every file of the folder but pixels, tables and the script.
std::vector<fs::path> media() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(golden_folder())) {
    const std::string extension = entry.path().extension();
    if (extension != ".ppm" && extension != ".py" && extension != ".txt")
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string test_name(const testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.filename().string();
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Media, Golden, testing::ValuesIn(media()), test_name);

// A picture that was cut, and what Pillow reads of it with LOAD_TRUNCATED_IMAGES.
struct CutPicture {
  std::string name;
  std::size_t bytes = 0;
  std::string pixels;  // their CRC-32, or "refused"
};

std::vector<CutPicture> cut_pictures() {
  std::vector<CutPicture> pictures;
  for (const char* name : {"truncated.txt", "truncated_progressive.txt"}) {
    std::ifstream table(golden_folder() / name);
    for (CutPicture cut; table >> cut.name >> cut.bytes >> cut.pixels;) pictures.push_back(cut);
  }
  return pictures;
}

std::string pixels_of(const CutPicture& cut, Truncated truncated) {
  std::vector<std::uint8_t> bytes = bytes_of(golden_folder() / cut.name);
  bytes.resize(cut.bytes);
  const MemoryByteSource source(std::as_bytes(std::span(bytes)));
  const auto shape = probe(source, cut.name, {});
  if (!shape) return "refused";
  const auto pixels = decode_stored(bytes, *shape, truncated);
  if (!pixels) return "refused";
  return fmt::format("{:08x}", libdeflate_crc32(0, pixels->rgb.data(), pixels->rgb.size()));
}

TEST(TruncatedPictures, AreWhatPillowMakesOfThemWhereTheyAreAccepted) {
  const std::vector<CutPicture> pictures = cut_pictures();
  ASSERT_GT(pictures.size(), 1000U);
  for (const CutPicture& cut : pictures) {
    EXPECT_EQ(pixels_of(cut, Truncated::kAccept), cut.pixels) << cut.name << " " << cut.bytes;
  }
}

TEST(TruncatedPictures, AreBadUnlessAllPixelsAreThere) {
  for (const CutPicture& cut : cut_pictures()) {
    const std::string pixels = pixels_of(cut, Truncated::kBad);
    if (pixels == "refused") continue;
    EXPECT_EQ(pixels, cut.pixels) << cut.name << " " << cut.bytes;
    const Pixels whole = read_ppm(golden_folder() / (cut.name + ".ppm"));
    EXPECT_EQ(pixels,
              fmt::format("{:08x}", libdeflate_crc32(0, whole.rgb.data(), whole.rgb.size())))
        << cut.name << " " << cut.bytes;
  }
}

TEST(GoldenFolder, HoldsEveryFormat) {
  std::set<std::string> extensions;
  for (const fs::path& file : media()) extensions.insert(file.extension());
  const std::set<std::string> expected = {".jpg",  ".png",  ".webp", ".gif", ".bmp", ".tif",
                                          ".heic", ".avif", ".mp4",  ".mkv", ".webm"};
  EXPECT_EQ(extensions, expected);
}

}  // namespace
}  // namespace isocost
