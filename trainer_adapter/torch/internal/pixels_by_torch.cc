#include "trainer_adapter/torch/internal/pixels_by_torch.h"

#include <ATen/TensorIndexing.h>
#include <ATen/ops/arange.h>

namespace isocost {
namespace {

// Returns the table's values for bytes [n, 3, ., .], by channel.
at::Tensor looked_up(const at::Tensor& table, const at::Tensor& values) {
  const at::Tensor channels =
      at::arange(kPixelChannels, at::TensorOptions().dtype(at::kLong).device(values.device()))
          .view({kPixelChannels, 1, 1});
  return table.to(values.device()).index({channels, values.to(at::kLong)});
}

}  // namespace

at::Tensor rows_by_torch(const at::Tensor& table, const at::Tensor& patches, PatchFrames frames) {
  const std::int64_t given = signed_size(frames.given);
  const std::int64_t copies = signed_size(frames.copies);
  const std::int64_t pixels = patches.size(1) / kPixelChannels;
  const std::int64_t units = patches.size(0) / given;
  const at::Tensor values =
      looked_up(table, patches.view({units, given, pixels, kPixelChannels}).permute({0, 3, 1, 2}));
  return values.unsqueeze(3)
      .expand({units, kPixelChannels, given, copies, pixels})
      .reshape({units, kPixelChannels, given * copies, pixels});
}

at::Tensor pictures_by_torch(const at::Tensor& table, const at::Tensor& patches,
                             const PictureLayout& layout) {
  const std::int64_t side = signed_size(layout.group_side());
  const std::int64_t merge = signed_size(layout.merge);
  const std::int64_t patch = signed_size(layout.patch);
  const std::int64_t rows =
      signed_size(layout.patches()) / (merge * merge) / signed_size(layout.groups_across());
  const std::int64_t columns = signed_size(layout.groups_across());
  const at::Tensor groups =
      patches.view({-1, rows, columns, merge, merge, patch, patch, kPixelChannels});
  const at::Tensor whole = groups.permute({0, 7, 1, 3, 5, 2, 4, 6})
                               .reshape({-1, kPixelChannels, rows * side, columns * side});
  return looked_up(
      table,
      whole.narrow(2, 0, signed_size(layout.height)).narrow(3, 0, signed_size(layout.width)));
}

}  // namespace isocost
