// Measures what a trainer's thread does to pixels: bytes of patches to float32, eight pictures of
// 384x384 put together, and as many rows of patches that each represent two frames, with values
// that are computed and with values that are looked up. Beside it, how long it takes to fill as
// much memory with a number. A patch of each result is checked first.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/statistics.h"
#include "trainer_adapter/normalise.h"

namespace isocost {
namespace {

constexpr int kRounds = 15;
constexpr std::size_t kPictures = 8;
constexpr PictureLayout kLayout{.height = 384, .width = 384};
constexpr std::size_t kPatchPixels = kLayout.patch * kLayout.patch;
constexpr PatchFrames kFrames{.given = 1, .copies = 2};
// Batches in turn, together larger than the caches.
constexpr std::size_t kBatches = 4;

std::vector<std::uint8_t> random_bytes(std::size_t count) {
  Random random(1);
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next() >> 56);
  return bytes;
}

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "normalise_bench: %s\n", what);
  std::exit(1);
}

// `work` makes a batch.
template <typename Work>
void measure(const std::string& name, std::size_t values, const Work& work) {
  std::vector<std::vector<float>> batches(kBatches, std::vector<float>(values));
  std::vector<double> ns;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    work(std::span<float>(batches[round % kBatches]));
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    ns.push_back(took.count() / static_cast<double>(values));
  }
  const auto [least, most] = std::ranges::minmax(ns);
  std::printf("%-34s %6.3f ns a value (%.3f to %.3f)\n", name.c_str(), median(ns), least, most);
}

// Checks that each value of a patch is the table's.
void check(std::span<const std::uint8_t> bytes, PixelTable table, const PixelValues& values) {
  std::vector<float> picture(std::size_t{3} * kLayout.height * kLayout.width);
  const std::size_t picture_bytes = kLayout.patches() * kLayout.patch_bytes();
  normalise_pictures(bytes.first(picture_bytes), kLayout, values, picture);
  std::vector<float> rows(kLayout.patch_bytes() * kFrames.copies);
  normalise_pixels(bytes.first(kLayout.patch_bytes()), kPatchPixels, values, kFrames, rows);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t y = 0; y < kLayout.patch; ++y) {
      for (std::size_t x = 0; x < kLayout.patch; ++x) {
        const std::size_t pixel = y * kLayout.patch + x;
        const float expected = table[channel * 256 + bytes[pixel * 3 + channel]];
        require(picture[(channel * kLayout.height + y) * kLayout.width + x] == expected,
                "a picture has another value");
        for (std::size_t copy = 0; copy < kFrames.copies; ++copy) {
          require(rows[(channel * kFrames.copies + copy) * kPatchPixels + pixel] == expected,
                  "a row has another value");
        }
      }
    }
  }
}

// Both works with these values.
void measure_both(const std::string& way, std::span<const std::uint8_t> bytes, PixelTable table,
                  const PixelValues& values) {
  check(bytes, table, values);
  measure("pictures, " + way, kPictures * 3 * kLayout.height * kLayout.width,
          [&](std::span<float> into) { normalise_pictures(bytes, kLayout, values, into); });
  measure(
      "rows, two frames each, " + way, bytes.size() * kFrames.copies,
      [&](std::span<float> into) { normalise_pixels(bytes, kPatchPixels, values, kFrames, into); });
}

int run() {
  const PixelArithmetic arithmetic{1.0 / 255, {0.5F, 0.4F, 0.3F}, {0.5F, 0.4F, 0.3F}};
  std::array<float, PixelTable::extent> table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto scaled = static_cast<float>(static_cast<double>(i % 256) * arithmetic.rescale);
    table.at(i) = (scaled - arithmetic.mean.at(i / 256)) / arithmetic.deviation.at(i / 256);
  }
  const auto bytes = random_bytes(kPictures * kLayout.patches() * kLayout.patch_bytes());
  std::printf("medians of %d rounds (least to most)\n", kRounds);
  const PixelValues computed(table, arithmetic);
  if (computed.computes()) measure_both("computed", bytes, table, computed);
  measure_both("looked up", bytes, table, PixelValues(table));
  measure("fill", bytes.size(), [](std::span<float> into) { std::ranges::fill(into, 1.0F); });
  return 0;
}

}  // namespace
}  // namespace isocost

int main() { return isocost::run(); }
