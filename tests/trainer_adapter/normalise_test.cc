#include "trainer_adapter/normalise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "base/random.h"
#include "base/scratch_directory.h"
#include "trainer_adapter/internal/written_once.h"

namespace isocost {
namespace {

using Table = std::array<float, PixelTable::extent>;

// Returns the table that a processor makes.
Table table_of(const PixelArithmetic& arithmetic) {
  Table table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::size_t channel = i / 256;
    const auto scaled = static_cast<float>(static_cast<double>(i % 256) * arithmetic.rescale);
    table.at(i) = (scaled - arithmetic.mean.at(channel)) / arithmetic.deviation.at(channel);
  }
  return table;
}

// The arithmetic of CLIP, SigLIP and ImageNet, and one that leaves the bytes unchanged.
const std::array kProcessors = {
    PixelArithmetic{
        1.0 / 255, {0.48145466F, 0.4578275F, 0.40821073F}, {0.26862954F, 0.26130258F, 0.27577711F}},
    PixelArithmetic{0.00392156862745098, {0.5F, 0.5F, 0.5F}, {0.5F, 0.5F, 0.5F}},
    PixelArithmetic{1.0 / 255, {0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}},
    PixelArithmetic{1.0, {0, 0, 0}, {1, 1, 1}},
};

bool has_fused_multiplication() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#else
  return false;  // unknown
#endif
}

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

// Every set of vector instructions that this processor has, chosen until this object is gone.
class EachTarget : public testing::TestWithParam<std::int64_t> {
 public:
  EachTarget() { choose(GetParam()); }
  ~EachTarget() override { choose(0); }

 private:
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

INSTANTIATE_TEST_SUITE_P(PixelValues, EachTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return hwy::TargetName(target.param); });

TEST_P(EachTarget, GivesTheTableToTheBitForAnyNumberOfPixels) {
  constexpr std::size_t kMost = 100;
  Random random(1);
  std::vector<std::uint8_t> rgb(3 * kMost);
  for (std::uint8_t& byte : rgb) byte = static_cast<std::uint8_t>(random.next() >> 56);
  for (const PixelArithmetic& arithmetic : kProcessors) {
    const Table table = table_of(arithmetic);
    const PixelValues values(table, arithmetic);
    for (std::size_t pixels = 0; pixels <= kMost; ++pixels) {
      // A value beside each row shows what is written beyond it.
      std::array<std::vector<float>, 3> rows;
      for (auto& row : rows) row.assign(pixels + 1, -1);
      values.of(rgb.data(), pixels, {rows[0].data(), rows[1].data(), rows[2].data()});
      for (std::size_t channel = 0; channel < 3; ++channel) {
        for (std::size_t i = 0; i < pixels; ++i) {
          ASSERT_EQ(bits(rows.at(channel)[i]),
                    bits(table.at(256 * channel + rgb[3 * i + channel])));
        }
        ASSERT_EQ(rows.at(channel)[pixels], -1);
      }
    }
  }
}

TEST_P(EachTarget, WritesAnyNumberOfValuesToAnyPlacePastTheCaches) {
  constexpr std::size_t kMost = 40;
  std::vector<float> from(kMost);
  for (std::size_t i = 0; i < kMost; ++i) from[i] = static_cast<float>(i + 1);
  for (std::size_t first = 1; first <= 16; ++first) {
    for (std::size_t values = 0; values <= kMost; ++values) {
      std::vector<float> to(first + values + 1, -1);
      {
        const WrittenOnce result(/*past_caches=*/true);
        result.write(from.data(), values, to.data() + first);
      }
      ASSERT_TRUE(std::equal(to.begin() + static_cast<std::ptrdiff_t>(first), to.end() - 1,
                             from.begin(), from.begin() + static_cast<std::ptrdiff_t>(values)));
      ASSERT_EQ(to[first - 1], -1);
      ASSERT_EQ(to.back(), -1);
    }
  }
}

TEST(PixelValues, AreComputedForKnownProcessorsWhereMultiplicationAndAdditionAreFused) {
  if (!has_fused_multiplication()) GTEST_SKIP() << "this processor does not fuse them";
  for (const PixelArithmetic& arithmetic : kProcessors) {
    EXPECT_TRUE(PixelValues(table_of(arithmetic), arithmetic).computes());
  }
}

TEST(PixelValues, AreLookedUpWhereOnlyTheSignOfAZeroDiffers) {
  const PixelArithmetic identity = kProcessors.back();
  Table table = table_of(identity);
  table[0] = -0.0F;
  EXPECT_FALSE(PixelValues(table, identity).computes());
}

TEST(PixelValues, AreLookedUpWhereTheArithmeticGivesOthers) {
  Table table = table_of(kProcessors[0]);
  table[700] = std::nextafter(table[700], 2.0F);
  const PixelValues values(table, kProcessors[0]);
  EXPECT_FALSE(values.computes());
  const std::array<std::uint8_t, 3> pixel = {1, 2, 700 - 512};
  std::array<float, 3> made{};
  values.of(pixel.data(), 1, {&made[0], &made[1], &made[2]});
  EXPECT_THAT(made, testing::ElementsAre(table[1], table[256 + 2], table[700]));
}

TEST(PixelValues, AreLookedUpWhereADeviationIsZero) {
  const PixelArithmetic arithmetic{1.0 / 255, {0.5F, 0.5F, 0.5F}, {0.5F, 0, 0.5F}};
  EXPECT_FALSE(PixelValues(table_of(arithmetic), arithmetic).computes());
}

TEST(NormalisePixels, PutsChannelsApartAndRepeatsThem) {
  std::array<float, 768> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i) / 2;
  // Two rows of two pixels.
  const std::vector<std::uint8_t> rows = {0, 1, 2, 10, 11, 12, 255, 254, 253, 3, 4, 5};
  std::vector<float> into(24);
  normalise_pixels(rows, 2, PixelValues(table), {.copies = 2}, into);
  EXPECT_THAT(
      into, testing::ElementsAre(0, 5, 0, 5, 128.5, 133.5, 128.5, 133.5, 257, 262, 257, 262, 127.5,
                                 1.5, 127.5, 1.5, 255, 130, 255, 130, 382.5, 258.5, 382.5, 258.5));
  normalise_pixels({}, 2, PixelValues(table), {.copies = 2}, {});
}

TEST(NormalisePixels, GivesALargeResultAsManySmallOnes) {
  constexpr std::size_t kPixels = 196;
  constexpr std::size_t kPatches = 1200;  // 5.6 MB, which may go past the caches
  Random random(1);
  std::vector<std::uint8_t> rows(kPatches * 3 * kPixels);
  for (std::uint8_t& byte : rows) byte = static_cast<std::uint8_t>(random.next() >> 56);
  const PixelValues values(table_of(kProcessors[0]), kProcessors[0]);
  for (const std::size_t copies : {1U, 2U}) {
    const std::size_t patch = 3 * kPixels * copies;
    std::vector<float> whole(kPatches * patch);
    normalise_pixels(rows, kPixels, values, {.given = 1, .copies = copies}, whole);
    std::vector<float> one(patch);
    for (std::size_t i = 0; i < kPatches; ++i) {
      normalise_pixels(std::span(rows).subspan(i * 3 * kPixels, 3 * kPixels), kPixels, values,
                       {.given = 1, .copies = copies}, one);
      ASSERT_TRUE(std::equal(one.begin(), one.end(),
                             whole.begin() + static_cast<std::ptrdiff_t>(i * patch)))
          << i;
    }
  }
}

TEST(NormalisePixels, PutsTheFramesOfAPatchOneAfterAnother) {
  std::array<float, 768> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  // Two frames of one pixel, twice.
  const std::vector<std::uint8_t> rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<float> into(12);
  normalise_pixels(rows, 1, PixelValues(table), {.given = 2}, into);
  EXPECT_THAT(into, testing::ElementsAre(1, 4, 258, 261, 515, 518, 7, 10, 264, 267, 521, 524));
}

// Every pixel of the picture has a value of its own, which tells where it comes from.
TEST(NormalisePictures, PutsPatchesTogetherAndCutsWhatReachesBeyond) {
  constexpr PictureLayout kLayout{.height = 7, .width = 5, .patch = 2, .merge = 2};
  constexpr std::size_t kPictures = 2;
  ASSERT_EQ(kLayout.patches(), 16U);
  std::array<float, 768> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  std::vector<std::uint8_t> patches(kPictures * kLayout.patches() * kLayout.patch_bytes(), 255);
  const auto pixel = [](std::size_t picture, std::size_t y, std::size_t x) {
    return static_cast<std::uint8_t>(picture * 100 + y * 5 + x);
  };
  for (std::size_t picture = 0; picture < kPictures; ++picture) {
    for (std::size_t y = 0; y < kLayout.height; ++y) {
      for (std::size_t x = 0; x < kLayout.width; ++x) {
        const std::size_t group = y / 4 * 2 + x / 4;
        const std::size_t patch = group * 4 + y % 4 / 2 * 2 + x % 4 / 2;
        const std::size_t at = (picture * 16 + patch) * 4 + y % 2 * 2 + x % 2;
        for (std::size_t c = 0; c < 3; ++c) patches[at * 3 + c] = pixel(picture, y, x);
      }
    }
  }
  std::vector<float> into(kPictures * 3 * 35);
  normalise_pictures(patches, kLayout, PixelValues(table), into);
  std::size_t at = 0;
  for (std::size_t picture = 0; picture < kPictures; ++picture) {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t i = 0; i < 35; ++i, ++at) {
        EXPECT_EQ(into[at], static_cast<float>(c * 256 + pixel(picture, i / 5, i % 5)));
      }
    }
  }
  normalise_pictures({}, kLayout, PixelValues(table), {});
}

TEST(Normalise, OtherSizesAreErrorsAndWriteNothing) {
  const Table table{};
  const PixelValues values(table);
  const std::vector<std::uint8_t> rows(2 * 2 * 3);
  std::vector<float> into(2 * 2 * 3);
  EXPECT_NO_THROW(normalise_pixels(rows, 2, values, {}, into));
  const std::span<float> less = std::span(into).first(6);
  EXPECT_THROW(normalise_pixels(rows, 2, values, {}, less), Exception);
  EXPECT_THROW(normalise_pixels(rows, 5, values, {}, into), Exception);
  EXPECT_THROW(normalise_pixels(rows, 0, values, {}, into), Exception);
  EXPECT_THROW(normalise_pixels(rows, 2, values, {.copies = 0}, into), Exception);
  EXPECT_THROW(normalise_pictures(rows, {.height = 2, .width = 2}, values, into), Exception);
  EXPECT_THROW(normalise_pictures(rows, {.height = 2, .width = 2, .patch = 0}, values, into),
               Exception);
}

TEST(PixelArithmetic, IsReadFromAModelsDirectory) {
  const auto scratch = ScratchDirectory::create("isocost-normalise").value();
  const auto missing = PixelArithmetic::of_model(scratch.path());
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message().find("preprocessor_config.json"), std::string::npos);

  // Newer versions of transformers write the settings of all media into one file.
  ASSERT_TRUE(replace_file(scratch / "processor_config.json",
                           R"({"image_processor": {"rescale_factor": 0.5, "size": {"a": 1},
                               "image_mean": [0, 0.25, 1], "image_std": [1, 2, 4]}})"));
  const auto newer = PixelArithmetic::of_model(scratch.path());
  ASSERT_TRUE(newer.has_value()) << newer.error().message();
  EXPECT_EQ(newer->rescale, 0.5);
  EXPECT_EQ(newer->mean[1], 0.25F);
  EXPECT_EQ(newer->deviation[2], 4.0F);
  EXPECT_EQ(newer->table()[512 + 10], 1.0F);  // (10 × 0.5 - 1) / 4

  const auto read = [&](const std::string& json) {
    EXPECT_TRUE(replace_file(scratch / "preprocessor_config.json", json));
    return PixelArithmetic::of_model(scratch.path());
  };
  const auto plain = read(R"({"do_rescale": false, "do_normalize": false})");
  ASSERT_TRUE(plain.has_value()) << plain.error().message();
  EXPECT_EQ(plain->table()[255], 255.0F);
  // Qwen2-VL's file has no factor, and an older one no numbers at all: the node's defaults hold.
  const auto published = read(R"({"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]})");
  ASSERT_TRUE(published.has_value()) << published.error().message();
  EXPECT_EQ(published->table()[255], 1.0F);
  const auto clip = read("{}");
  ASSERT_TRUE(clip.has_value()) << clip.error().message();
  EXPECT_EQ(clip->mean[1], 0.4578275F);
  EXPECT_EQ(clip->deviation[2], 0.27577711F);
  for (const auto& [json, key] :
       {std::pair(R"({"rescale_factor": 1, "image_mean": [0, 0], "image_std": [1, 1, 1]})",
                  "image_mean"),
        std::pair(R"({"rescale_factor": 1, "image_mean": [0, 0, 0], "image_std": [1, 0, 1]})",
                  "image_std"),
        std::pair(R"({"rescale_factor": "x"})", "rescale_factor")}) {
    const auto bad = read(json);
    ASSERT_FALSE(bad.has_value()) << json;
    EXPECT_EQ(bad.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(bad.error().message().find(key), std::string::npos) << bad.error().message();
    EXPECT_NE(bad.error().message().find("preprocessor_config.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace isocost
