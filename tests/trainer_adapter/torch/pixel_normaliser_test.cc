#include "trainer_adapter/torch/pixel_normaliser.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "base/output_file.h"
#include "base/scratch_directory.h"
#include "trainer_adapter/torch/internal/pixels_by_torch.h"

namespace isocost {
namespace {

constexpr PixelArithmetic kArithmetic{1.0 / 255, {0.5F, 0.25F, 0.75F}, {0.5F, 0.1F, 0.3F}};

at::Tensor table() {
  return at::tensor(at::ArrayRef<float>(kArithmetic.table().data(), 768)).view({3, 256});
}

at::Tensor bytes(std::int64_t rows, std::int64_t values) {
  at::manual_seed(7);
  return at::randint(256, {rows, values}, at::kByte);
}

// By the processor's formula, in float32 except for the product.
at::Tensor expected(const at::Tensor& planes) {
  const at::Tensor scaled = (planes.to(at::kDouble) * kArithmetic.rescale).to(at::kFloat);
  const at::Tensor mean = at::tensor(at::ArrayRef<float>(kArithmetic.mean.data(), 3));
  const at::Tensor deviation = at::tensor(at::ArrayRef<float>(kArithmetic.deviation.data(), 3));
  return (scaled - mean.view({3, 1, 1})) / deviation.view({3, 1, 1});
}

TEST(PixelNormaliser, RowsHaveTheirChannelsApart) {
  const PixelNormaliser normaliser(kArithmetic);
  const at::Tensor patches = bytes(6, 14 * 14 * 3);
  const at::Tensor video = normaliser.rows(patches, {.given = 2, .copies = 1});
  EXPECT_EQ(video.sizes(), at::IntArrayRef({3, 3, 2, 196}));
  EXPECT_TRUE(at::equal(video, expected(patches.view({3, 2, 196, 3}).permute({0, 3, 1, 2}))));
  const at::Tensor picture = normaliser.rows(patches, {.given = 1, .copies = 2});
  EXPECT_TRUE(at::equal(picture.select(2, 0), picture.select(2, 1)));
  EXPECT_TRUE(at::equal(picture, rows_by_torch(table(), patches, {.given = 1, .copies = 2})));
}

// Two pictures of two by one groups, of which the last pixels lie beyond the picture.
TEST(PixelNormaliser, PicturesArePutTogether) {
  const PixelNormaliser normaliser(kArithmetic);
  const PictureLayout layout{.height = 50, .width = 20};
  const at::Tensor patches = bytes(2 * 8, 14 * 14 * 3);
  const at::Tensor pictures = normaliser.pictures(patches, layout);
  ASSERT_EQ(pictures.sizes(), at::IntArrayRef({2, 3, 50, 20}));
  // Row 30 and column 17 lie in the second group, its patch of the first row and second column.
  const at::Tensor pixel = patches[1 * 8 + 4 + 1].view({14, 14, 3})[2][3];
  EXPECT_TRUE(at::equal(pictures.select(0, 1).select(1, 30).select(1, 17),
                        expected(pixel.view({3, 1, 1})).view({3})));
  EXPECT_TRUE(at::equal(pictures, pictures_by_torch(table(), patches, layout)));
}

TEST(PixelNormaliser, TakesTheNumbersOfAModelsDirectory) {
  const auto scratch = ScratchDirectory::create("isocost-normaliser").value();
  ASSERT_TRUE(replace_file(scratch / "preprocessor_config.json",
                           R"({"rescale_factor": 0.00392156862745098, "do_rescale": true,
                               "image_mean": [0.5, 0.25, 0.75], "image_std": [0.5, 0.1, 0.3]})"));
  const at::Tensor patches = bytes(2, 588);
  EXPECT_TRUE(at::equal(PixelNormaliser(scratch.path()).rows(patches),
                        PixelNormaliser(kArithmetic).rows(patches)));
  EXPECT_THROW(PixelNormaliser(scratch / "none"), Exception);
}

TEST(PixelNormaliser, OtherTensorsAreErrors) {
  const PixelNormaliser normaliser(kArithmetic);
  EXPECT_THROW(normaliser.rows(bytes(2, 588).to(at::kFloat)), c10::Error);
  EXPECT_THROW(normaliser.rows(bytes(3, 588), {.given = 2}), c10::Error);
  EXPECT_THROW(normaliser.pictures(bytes(3, 588), {.height = 28, .width = 28}), c10::Error);
}

}  // namespace
}  // namespace isocost
