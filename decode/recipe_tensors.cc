// Bytes to tensors. Each tensor is allocated once, with the size of the plan, and filled part by
// part.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/byte_source.h"
#include "base/load.h"
#include "base/result.h"
#include "base/tensor.h"
#include "base/tensor_schema.h"
#include "base/utf8.h"
#include "decode/internal/audio.h"
#include "decode/internal/image_decoder.h"
#include "decode/internal/media_bytes.h"
#include "decode/internal/patch_grid.h"
#include "decode/internal/patchify.h"
#include "decode/internal/sample_plan.h"
#include "decode/internal/video.h"
#include "decode/probe.h"
#include "decode/recipe.h"
#include "decode/sample_shape.h"

namespace isocost {
namespace {

static_assert(tensor_entry(Module::kVision, TensorRole::kRows).row_width == kPatchBytes);
static_assert(tensor_entry(Module::kAudio, TensorRole::kRows).row_width == kMelBins);

/// A tensor that is filled from front to back.
template <typename T>
class Column {
 public:
  Column(BufferPool& pool, std::int64_t rows, std::int64_t width)
      : rows_(rows),
        width_(width),
        buffer_(pool.allocate(rows * width * static_cast<std::int64_t>(sizeof(T)))),
        room_(reinterpret_cast<T*>(buffer_.data()), static_cast<std::size_t>(rows * width)) {}

  /// Returns the next `rows` rows. The plan has counted them.
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
                   make_tensor(std::move(buffer_), entry.dtype, entry.shape(rows_)));
    to.push_back({std::string(entry.name), std::move(published)});
    return {};
  }

 private:
  std::int64_t rows_;
  std::int64_t width_;
  Buffer buffer_;
  std::span<T> room_;
};

Status check_size(const PartBytes& part) {
  if (part.source->size() == part.shape->encoded_bytes) return {};
  return corrupt("its size has changed since it was indexed");
}

/// Returns the whole text, of which the recipe may use less.
Result<std::vector<std::uint8_t>> read_text(const PartBytes& part) {
  ISOCOST_TRY(check_size(part));
  ISOCOST_ASSIGN(std::vector<std::uint8_t> bytes,
                 read_some(*part.source, 0, static_cast<std::size_t>(part.source->size())));
  if (part.shape->format == MediaFormat::kJson) {
    ISOCOST_ASSIGN(const SampleJson json,
                   parse_sample_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    bytes.assign(json.text.begin(), json.text.end());
  } else if (const std::size_t valid = valid_utf8_prefix(bytes); valid < bytes.size()) {
    return corrupt("is not UTF-8 at byte " + std::to_string(valid));
  }
  if (static_cast<std::int64_t>(bytes.size()) != part.shape->text_bytes) {
    return corrupt("its text has changed since it was indexed");
  }
  return bytes;
}

class SampleTensors {
 public:
  SampleTensors(const SamplePlan& plan, BufferPool& pool, const DecodeLimit& limit)
      : plan_(plan),
        limit_(limit),
        patches_(pool, plan.patches, kPatchBytes),
        grids_(pool, plan.images, 2),
        image_lengths_(pool, plan.images, 1),
        mel_(pool, plan.mel_frames, kMelBins),
        window_lengths_(pool, plan.windows, 1),
        ids_(pool, plan.tokens, 1),
        labels_(pool, plan.tokens, 1),
        positions_(pool, plan.tokens, 1),
        tokens_(pool, 1, 1),
        all_ids_(ids_.take(plan.tokens)) {
    append(kTokenBos, 1);
  }

  Status add(const PartBytes& bytes, const PartPlan& plan) {
    switch (bytes.shape->modality) {
      case Modality::kText:
        return add_text(bytes, plan);
      case Modality::kImage:
        return add_image(bytes, plan);
      case Modality::kVideo:
        return add_video(bytes, plan);
      case Modality::kAudio:
        return add_audio(bytes, plan);
    }
    return Error(ErrorCode::kInvalidArgument, "a part of no known modality");
  }

  Result<std::vector<NamedTensor>> finish() {
    append(kTokenEos, 1);
    fill_labels();
    tokens_.push(static_cast<std::int32_t>(plan_.tokens));
    std::vector<NamedTensor> out;
    if (plan_.images > 0) {
      ISOCOST_TRY(patches_.publish(tensor_entry(Module::kVision, TensorRole::kRows), out));
      ISOCOST_TRY(grids_.publish(tensor_entry(Module::kVision, TensorRole::kGrids), out));
      ISOCOST_TRY(image_lengths_.publish(tensor_entry(Module::kVision, TensorRole::kLengths), out));
    }
    if (plan_.windows > 0) {
      ISOCOST_TRY(mel_.publish(tensor_entry(Module::kAudio, TensorRole::kRows), out));
      ISOCOST_TRY(window_lengths_.publish(tensor_entry(Module::kAudio, TensorRole::kLengths), out));
    }
    ISOCOST_TRY(ids_.publish(tensor_entry(Module::kLlm, TensorRole::kIds), out));
    ISOCOST_TRY(labels_.publish(tensor_entry(Module::kLlm, TensorRole::kLabels), out));
    ISOCOST_TRY(positions_.publish(tensor_entry(Module::kLlm, TensorRole::kPositions), out));
    ISOCOST_TRY(tokens_.publish(tensor_entry(Module::kLlm, TensorRole::kLengths), out));
    return out;
  }

 private:
  void append(std::int64_t token, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) all_ids_[filled_++] = token;
  }

  Status add_text(const PartBytes& bytes, const PartPlan& plan) {
    ISOCOST_ASSIGN(const std::vector<std::uint8_t> text, read_text(bytes));
    for (std::size_t i = 0; i < static_cast<std::size_t>(plan.text_tokens); ++i) {
      append(text[i], 1);
    }
    return {};
  }

  std::span<std::byte> next_image(PatchGrid grid) {
    const auto sides = grids_.take(1);
    sides[0] = grid.rows;
    sides[1] = grid.columns;
    image_lengths_.push(static_cast<std::int32_t>(grid.patches()));
    append(kTokenVision, grid.tokens());
    return std::as_writable_bytes(patches_.take(grid.patches()));
  }

  Status add_image(const PartBytes& bytes, const PartPlan& plan) {
    return image_patches(*bytes.source, *bytes.shape, plan.grid, next_image(plan.grid));
  }

  Status add_video(const PartBytes& bytes, const PartPlan& plan) {
    ISOCOST_TRY(check_size(bytes));
    const auto times = frame_times_us(bytes.shape->duration_us, plan.images);
    const auto sink = [&](std::size_t, std::span<const std::uint8_t> rgb) -> Status {
      constexpr std::uint8_t kUpright = 1;  // frames come turned
      patchify(rgb, kUpright, plan.grid, next_image(plan.grid));
      return {};
    };
    return video_frames(*bytes.source, *bytes.shape, times, plan.grid.width(), plan.grid.height(),
                        sink, limit_);
  }

  Status add_audio(const PartBytes& bytes, const PartPlan& plan) {
    ISOCOST_TRY(check_size(bytes));
    for (const std::int32_t frames : plan.audio.window_frames) window_lengths_.push(frames);
    append(kTokenAudio, plan.mel_frames() / 4);
    return audio_log_mel(*bytes.source, *bytes.shape, plan.audio, mel_.take(plan.mel_frames()));
  }

  /// A sample's first token is no label: in a packed sequence, another sample precedes it.
  void fill_labels() {
    const auto labels = labels_.take(plan_.tokens);
    const auto positions = positions_.take(plan_.tokens);
    std::iota(positions.begin(), positions.end(), std::int64_t{0});
    std::ranges::transform(all_ids_, labels.begin(), [](std::int64_t id) {
      return id < kTokenBos || id == kTokenEos ? id : kIgnoredLabel;
    });
  }

  const SamplePlan& plan_;
  const DecodeLimit& limit_;
  Column<std::uint8_t> patches_;
  Column<std::int32_t> grids_;
  Column<std::int32_t> image_lengths_;
  Column<float> mel_;
  Column<std::int32_t> window_lengths_;
  Column<std::int64_t> ids_;
  Column<std::int64_t> labels_;
  Column<std::int64_t> positions_;
  Column<std::int32_t> tokens_;
  std::span<std::int64_t> all_ids_;
  std::size_t filled_ = 0;
};

tl::unexpected<PartError> failed(Error error, std::size_t part) {
  return tl::make_unexpected(PartError{std::move(error), part});
}

}  // namespace

tl::expected<std::vector<NamedTensor>, PartError> Recipe::tensors(std::span<const PartBytes> parts,
                                                                  BufferPool& pool,
                                                                  const DecodeLimit& limit) const {
  if (parts.empty()) {
    return failed({ErrorCode::kInvalidArgument, "a sample needs at least one part"}, 0);
  }
  SamplePlan plan;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto added = plan.add(*parts[i].shape, options_);
    if (!added.has_value()) return failed(std::move(added).error(), i);
  }
  SampleTensors sample(plan, pool, limit);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Status going_on = limit.check(limit.used(), 0);
    if (!going_on) return failed(going_on.error(), i);
    auto added = sample.add(parts[i], plan.parts[i]);
    if (!added.has_value()) return failed(std::move(added).error(), i);
  }
  auto tensors = sample.finish();
  if (!tensors.has_value()) return failed(std::move(tensors).error(), 0);
  return *std::move(tensors);
}

}  // namespace isocost
