#pragma once

// Makes samples by hand, and assembles microbatches from them as a client does.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/random.h"
#include "decode/recipe.h"
#include "trainer_adapter/client.h"

namespace isocost {

struct HandMadeSample {
  std::uint64_t id = 0;
  float weight = 1.0F;
  std::vector<std::pair<std::int32_t, std::int32_t>> images;  ///< Patch rows and columns, even.
  std::vector<std::uint8_t> patches;
  std::vector<std::int32_t> audio_frames;  ///< Frames of each window, multiples of 4.
  std::vector<float> mel;
  std::vector<std::int64_t> input_ids;
  std::vector<std::int64_t> labels;

  std::uint32_t label_tokens() const {
    return static_cast<std::uint32_t>(
        std::count_if(labels.begin(), labels.end(), [](std::int64_t l) { return l >= 0; }));
  }
};

/// Makes a sample of BOS, images, audio windows, `text_bytes` bytes and EOS; all values are random.
inline HandMadeSample make_sample(std::uint64_t id,
                                  std::vector<std::pair<std::int32_t, std::int32_t>> images,
                                  std::vector<std::int32_t> audio_frames, std::size_t text_bytes,
                                  Random& random) {
  HandMadeSample sample;
  sample.id = id;
  sample.weight = 0.5F + static_cast<float>(random.below(4)) * 0.5F;
  sample.input_ids.push_back(kTokenBos);
  for (const auto& [rows, columns] : images) {
    for (std::int32_t i = 0; i < rows * columns * 588; ++i) {
      sample.patches.push_back(static_cast<std::uint8_t>(random.below(256)));
    }
    sample.input_ids.insert(sample.input_ids.end(), static_cast<std::size_t>(rows * columns / 4),
                            kTokenVision);
  }
  for (const std::int32_t frames : audio_frames) {
    for (std::int32_t i = 0; i < frames * 128; ++i) {
      sample.mel.push_back(static_cast<float>(random.uniform() * 2 - 1));
    }
    sample.input_ids.insert(sample.input_ids.end(), static_cast<std::size_t>(frames / 4),
                            kTokenAudio);
  }
  for (std::size_t i = 0; i < text_bytes; ++i) {
    sample.input_ids.push_back(static_cast<std::int64_t>(random.below(256)));
  }
  sample.input_ids.push_back(kTokenEos);
  for (const std::int64_t token : sample.input_ids) {
    sample.labels.push_back(token <= kTokenEos && token != kTokenBos ? token : kIgnoredLabel);
  }
  sample.images = std::move(images);
  sample.audio_frames = std::move(audio_frames);
  return sample;
}

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// Copies the values into a buffer of the pool. Does nothing for no values, as of an absent
/// modality.
template <typename T>
void add_tensor(Microbatch& microbatch, const std::string& name, DType dtype,
                const std::vector<T>& values, std::vector<std::int64_t> shape, BufferPool& pool) {
  if (values.empty()) return;
  Buffer buffer = pool.allocate(static_cast<std::int64_t>(values.size() * sizeof(T)));
  std::memcpy(buffer.data(), values.data(), values.size() * sizeof(T));
  auto tensor = make_tensor(std::move(buffer), dtype, std::move(shape));
  microbatch.tensors.push_back({name, std::move(tensor).value()});
}

inline void add_lengths(Microbatch& microbatch, const std::string& module,
                        const std::vector<std::int32_t>& lengths, BufferPool& pool) {
  if (lengths.empty()) return;
  std::vector<std::int32_t> sums = {0};
  for (const std::int32_t length : lengths) sums.push_back(sums.back() + length);
  const auto count = static_cast<std::int64_t>(lengths.size());
  add_tensor(microbatch, module + ".lengths", DType::kInt32, lengths, {count}, pool);
  add_tensor(microbatch, module + ".cu_seqlens", DType::kInt32, sums, {count + 1}, pool);
}

/// Returns the microbatch that a client assembles from these samples.
inline Microbatch assemble(std::span<const HandMadeSample> samples,
                           std::uint64_t global_label_tokens, BufferPool& pool) {
  HandMadeSample all;
  std::vector<std::int32_t> grids, image_lengths, text_lengths;
  std::vector<std::int64_t> positions;
  std::vector<float> weights;
  Microbatch microbatch;
  microbatch.header.global_label_tokens = global_label_tokens;
  for (const HandMadeSample& sample : samples) {
    for (const auto& [rows, columns] : sample.images) {
      append(grids, {rows, columns});
      image_lengths.push_back(rows * columns);
    }
    append(all.patches, sample.patches);
    append(all.audio_frames, sample.audio_frames);
    append(all.mel, sample.mel);
    append(all.input_ids, sample.input_ids);
    append(all.labels, sample.labels);
    text_lengths.push_back(static_cast<std::int32_t>(sample.input_ids.size()));
    for (std::size_t i = 0; i < sample.input_ids.size(); ++i) {
      positions.push_back(static_cast<std::int64_t>(i));
      weights.push_back(sample.weight);
    }
    microbatch.header.samples.push_back({sample.id, sample.weight, sample.label_tokens()});
  }
  const auto rows = [](std::size_t values, std::size_t of_a_row) {
    return static_cast<std::int64_t>(values / of_a_row);
  };
  const std::int64_t tokens = rows(all.input_ids.size(), 1);
  add_tensor(microbatch, "vision.patches", DType::kUInt8, all.patches,
             {rows(all.patches.size(), 588), 588}, pool);
  add_tensor(microbatch, "vision.grids", DType::kInt32, grids, {rows(grids.size(), 2), 2}, pool);
  add_lengths(microbatch, "vision", image_lengths, pool);
  add_tensor(microbatch, "audio.mel", DType::kFloat32, all.mel, {rows(all.mel.size(), 128), 128},
             pool);
  add_lengths(microbatch, "audio", all.audio_frames, pool);
  add_tensor(microbatch, "llm.input_ids", DType::kInt64, all.input_ids, {tokens}, pool);
  add_tensor(microbatch, "llm.labels", DType::kInt64, all.labels, {tokens}, pool);
  add_tensor(microbatch, "llm.position_ids", DType::kInt64, positions, {tokens}, pool);
  add_tensor(microbatch, "llm.loss_weights", DType::kFloat32, weights, {tokens}, pool);
  add_lengths(microbatch, "llm", text_lengths, pool);
  return microbatch;
}

}  // namespace isocost
