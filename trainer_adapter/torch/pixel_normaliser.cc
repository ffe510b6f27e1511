#include "trainer_adapter/torch/pixel_normaliser.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <cstdint>
#include <span>

#include "trainer_adapter/torch/internal/pixels_by_torch.h"

namespace isocost {
namespace {

constexpr std::int64_t kValues = 256;

std::span<const std::uint8_t> bytes_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<std::uint8_t>(), static_cast<std::size_t>(tensor.numel())};
}

std::span<float> floats_of(at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

// Checks that the bytes form whole units of `bytes`, and returns their number.
std::int64_t units_of(const at::Tensor& patches, std::int64_t bytes) {
  TORCH_CHECK(patches.scalar_type() == at::kByte && patches.dim() == 2,
              "patches are uint8 [patches, values], not ", patches.scalar_type(), " ",
              patches.sizes());
  TORCH_CHECK(bytes > 0 && patches.numel() % bytes == 0, "patches ", patches.sizes(),
              " do not form whole units of ", bytes, " values");
  return patches.numel() / bytes;
}

}  // namespace

PixelNormaliser::PixelNormaliser(const PixelArithmetic& arithmetic)
    : values_(arithmetic.table(), arithmetic) {
  std::array<float, PixelTable::extent> table = arithmetic.table();
  table_ = at::from_blob(table.data(), {kPixelChannels, kValues}, at::kFloat).clone();
}

PixelNormaliser::PixelNormaliser(const std::filesystem::path& model_directory)
    : PixelNormaliser(PixelArithmetic::of_model(model_directory).value()) {}

at::Tensor PixelNormaliser::rows(const at::Tensor& patches, PatchFrames frames) const {
  const std::int64_t pixels = patches.dim() == 2 ? patches.size(1) / kPixelChannels : 0;
  const std::int64_t given = signed_size(frames.given);
  const std::int64_t copies = signed_size(frames.copies);
  const std::int64_t units = units_of(patches, given * pixels * kPixelChannels);
  if (patches.is_cpu()) {
    at::Tensor values = at::empty({units, kPixelChannels, given * copies, pixels}, at::kFloat);
    const at::Tensor packed = patches.contiguous();
    normalise_pixels(bytes_of(packed), static_cast<std::size_t>(pixels), values_, frames,
                     floats_of(values));
    return values;
  }
  return rows_by_torch(table_, patches, frames);
}

at::Tensor PixelNormaliser::pictures(const at::Tensor& patches, const PictureLayout& layout) const {
  const std::int64_t height = signed_size(layout.height);
  const std::int64_t width = signed_size(layout.width);
  const std::int64_t count =
      units_of(patches, signed_size(layout.patches() * layout.patch_bytes()));
  if (patches.is_cpu()) {
    at::Tensor values = at::empty({count, kPixelChannels, height, width}, at::kFloat);
    const at::Tensor packed = patches.contiguous();
    normalise_pictures(bytes_of(packed), layout, values_, floats_of(values));
    return values;
  }
  return pictures_by_torch(table_, patches, layout);
}

}  // namespace isocost
