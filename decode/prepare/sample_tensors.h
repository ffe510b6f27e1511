#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/tensor.h"
#include "base/tensor_schema.h"
#include "decode/audio/audio.h"
#include "decode/prepare/rope_positions.h"
#include "decode/prepare/sample_plan.h"
#include "decode/resize/patch_grid.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// A tensor that is filled from front to back.
template <typename T>
class Column {
 public:
  Column(BufferPool& pool, std::int64_t rows, std::int64_t width)
      : rows_(rows),
        width_(width),
        buffer_(pool.allocate(rows * width * static_cast<std::int64_t>(sizeof(T)))),
        room_(reinterpret_cast<T*>(buffer_.data()), static_cast<std::size_t>(rows * width)) {}

  /// Returns the next `rows` rows, which the plan has counted.
  std::span<T> take(std::int64_t rows) {
    const auto values = static_cast<std::size_t>(rows * width_);
    const std::span<T> front = room_.first(values);
    room_ = room_.subspan(values);
    return front;
  }
  void push(T value) { take(1).front() = value; }

  Status publish(const TensorEntry& entry, std::vector<NamedTensor>& to) {
    if (!room_.empty()) return Error(ErrorCode::kInternal, "a tensor is not filled");
    ISOCOST_ASSIGN(SharedTensor published,
                   make_tensor(std::move(buffer_), entry.dtype, entry.shape(rows_, width_)));
    to.push_back({std::string(entry.name), std::move(published)});
    return {};
  }

 private:
  std::int64_t rows_;
  std::int64_t width_;
  Buffer buffer_;
  std::span<T> room_;
};

/// The tensors of a sample while they are filled: each is allocated once, with the planned size, to
/// whose counts callers must keep. Single-thread.
class SampleTensors {
 public:
  SampleTensors(const SamplePlan& plan, BufferPool& pool);

  /// Appends `count` equal tokens. `label` is the token itself or kIgnoredLabel; `weight` its
  /// turn's.
  void append(std::int64_t token, std::int64_t label, std::int64_t count = 1, float weight = 1);
  /// Appends `count` equal tokens that represent one of the placeholders of a medium.
  void append_medium(std::int64_t token, std::int64_t count, const PartPlan& plan);
  /// Describes an image or a video, for models that need to know which pictures belong together.
  void describe(const PartShape& shape, const PartPlan& plan);
  /// Returns the memory for the patches of the next picture, each with a row for each of its
  /// frames.
  std::span<std::byte> next_image(PatchGrid grid, std::int32_t depth = 1);
  /// Returns the memory for the mel frames of the next audio part.
  std::span<float> next_audio(const AudioPlan& plan);
  /// Returns the tensors. Errors: kInternal if one is not filled.
  Result<std::vector<NamedTensor>> finish();

 private:
  const std::int64_t tokens_;
  const bool has_images_;
  const bool has_media_;
  const bool has_audio_;
  const bool has_rope_;
  const bool has_weights_;
  Column<std::uint8_t> patches_;
  Column<std::int32_t> grids_;
  Column<std::int32_t> media_;
  Column<std::int32_t> image_lengths_;
  Column<float> mel_;
  Column<std::int32_t> window_lengths_;
  Column<std::int64_t> ids_;
  Column<std::int64_t> labels_;
  Column<std::int64_t> positions_;
  Column<std::int32_t> rope_;
  Column<float> weights_;
  Column<std::int32_t> lengths_;
  RopePositions rope_positions_;
};

}  // namespace isocost
