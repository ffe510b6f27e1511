#include "transport/shared_memory/block_filling.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "transport/wire/copy_bytes.h"

namespace isocost {

Result<BlockLayout> BlockLayout::of(const MicrobatchHeader& header) {
  BlockLayout layout;
  for (std::size_t t = 0; t < header.tensors.size(); ++t) {
    ISOCOST_ASSIGN(RowOffsets rows, row_offsets(header, t));
    const auto end = checked_sum(layout.bytes, rows.bytes());
    const auto padded = end ? checked_sum(*end, kAlignment - 1) : std::nullopt;
    if (!padded) return Error(ErrorCode::kCorrupt, header.tensors[t].name + ": impossible size");
    layout.tensors.push_back({header.tensors[t], std::move(rows), layout.bytes});
    layout.bytes = *padded / kAlignment * kAlignment;
  }
  return layout;
}

std::vector<std::int64_t> BlockLayout::offsets() const {
  std::vector<std::int64_t> offsets;
  offsets.reserve(tensors.size());
  for (const Tensor& tensor : tensors) offsets.push_back(tensor.offset);
  return offsets;
}

BlockFilling::BlockFilling(BlockLayout layout, std::size_t samples, std::span<std::byte> bytes)
    : layout_(std::move(layout)), bytes_(bytes), added_(samples) {
  for (const BlockLayout::Tensor& tensor : layout_.tensors) missing_bytes_ += tensor.rows.bytes();
}

// Returns the index of the tensor in which `named` is the rows of this sample.
std::optional<std::size_t> BlockFilling::find(const NamedTensor& named, std::size_t sample) const {
  for (std::size_t t = 0; t < layout_.tensors.size(); ++t) {
    const auto& [spec, rows, offset] = layout_.tensors[t];
    if (spec.name != named.name) continue;
    const std::int64_t count = rows.first_row[sample + 1] - rows.first_row[sample];
    if (!is_part_of(spec, named.tensor.dtype, named.tensor.shape, count)) return std::nullopt;
    return t;
  }
  return std::nullopt;
}

BlockFilling::Progress BlockFilling::add(const Fragment& fragment) {
  const std::size_t sample = fragment.sample;
  if (sample >= added_.size()) return Progress::kRefused;
  std::vector<std::size_t> targets;
  for (const NamedTensor& named : fragment.tensors) {
    const auto target = find(named, sample);
    const bool twice =
        target && std::find(targets.begin(), targets.end(), *target) != targets.end();
    if (!target || twice) return Progress::kRefused;
    targets.push_back(*target);
  }
  if (added_[sample].exchange(true)) return Progress::kAdded;
  std::int64_t copied = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const BlockLayout::Tensor& target = layout_.tensors[targets[i]];
    const std::span<const std::byte> from = fragment.tensors[i].tensor.bytes();
    if (from.empty()) continue;
    const std::int64_t at = target.offset + target.rows.first_row[sample] * target.rows.row_bytes;
    copy_part(bytes_.subspan(static_cast<std::size_t>(at), from.size()), from, layout_.bytes);
    copied += static_cast<std::int64_t>(from.size());
  }
  if (copied == 0) return Progress::kAdded;
  return missing_bytes_.fetch_sub(copied) == copied ? Progress::kComplete : Progress::kAdded;
}

}  // namespace isocost
