#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/byte_source.h"
#include "base/result.h"
#include "base/scratch_directory.h"
#include "base/tensor.h"
#include "decode/probe.h"
#include "decode/recipe.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"
#include "decode/shape/tokens.h"
#include "tests/support/media.h"

// Shared helpers of the tests of recipes that are read from a model's directory.
namespace isocost::test {

/// A model's directory of a few files.
class ModelDirectory {
 public:
  void write(const std::string& name, std::string_view text) const {
    std::ofstream(path() / name) << text;
  }
  Result<Recipe> read() const { return Recipe::create(ModelRecipeOptions{.directory = path()}); }
  Result<Recipe> read(std::string_view config, std::string_view image_processor) const {
    write("config.json", config);
    write("preprocessor_config.json", image_processor);
    return read();
  }
  /// The message, or nothing if it is read.
  std::string refusal(std::string_view config, std::string_view image_processor) const {
    const auto made = read(config, image_processor);
    return made ? "" : made.error().message();
  }
  const std::filesystem::path& path() const { return scratch_.path(); }

 private:
  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
};

/// The extension of JPEG, PNG, WAV, FLAC and MP4 files.
inline std::string_view extension_of(const Bytes& medium) {
  switch (std::to_integer<char>(medium.front())) {
    case 'R':
      return "wav";
    case 'f':
      return "flac";
    case '\xFF':
      return "jpg";
    case '\x89':
      return "png";
    default:
      return "mp4";
  }
}

/// Tokens and media of these files, with their shapes.
class ModelSample {
 public:
  ModelSample(const Tokens& tokens, std::vector<Bytes> media) {
    const auto encoded = encode_tokens(tokens);
    bytes_.push_back(Bytes(encoded.begin(), encoded.end()));
    PartShape text;
    text.format = MediaFormat::kTokens;
    text.text_tokens = std::ssize(tokens.ids) - std::ssize(media);
    text.label_tokens = std::count(tokens.labelled.begin(), tokens.labelled.end(), true);
    text.weighted = !tokens.weights.empty();
    text.encoded_bytes = std::ssize(encoded);
    shape.parts.push_back(text);
    for (Bytes& medium : media) {
      const MemoryByteSource source(medium);
      shape.parts.push_back(probe(source, extension_of(medium), {}).value());
      bytes_.push_back(std::move(medium));
    }
  }
  tl::expected<std::vector<NamedTensor>, PartError> tensors(const Recipe& recipe,
                                                            const DecodeLimit& limit = {}) {
    std::vector<MemoryByteSource> sources;
    sources.reserve(bytes_.size());
    std::vector<PartBytes> parts;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      sources.emplace_back(bytes_[i]);
      parts.push_back({&shape.parts[i], &sources.back()});
    }
    auto made = recipe.tensors(parts, pool_, limit);
    if (made) expect_planned(*made, recipe.tensor_plans(shape).value());
    return made;
  }

  SampleShape shape;

 private:
  static void expect_planned(const std::vector<NamedTensor>& made,
                             const std::vector<TensorPlan>& planned) {
    ASSERT_EQ(made.size(), planned.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      EXPECT_EQ(made[i].name, planned[i].entry->name);
      EXPECT_EQ(made[i].tensor.shape, planned[i].shape) << made[i].name;
    }
  }

  std::vector<Bytes> bytes_;
  BufferPool pool_;
};

/// That neither the time for a picture nor a stop is overlooked by the recipe.
inline void expect_limits_of_pictures(const Recipe& recipe, std::uint32_t image_token) {
  std::stop_source stop;
  stop.request_stop();
  for (const Bytes& picture : {make_jpeg(64, 48), make_png(64, 48), make_jpeg(64, 48, 1, 6)}) {
    ModelSample sample({{image_token}, {false}}, {picture});
    const auto late = sample.tensors(recipe, DecodeLimit(std::chrono::nanoseconds(1)));
    ASSERT_FALSE(late.has_value());
    EXPECT_EQ(late.error().error.code(), ErrorCode::kResourceExhausted);
    const auto stopped =
        sample.tensors(recipe, DecodeLimit(std::chrono::hours(1), stop.get_token()));
    ASSERT_FALSE(stopped.has_value());
    EXPECT_EQ(stopped.error().error.code(), ErrorCode::kCancelled);
  }
}

template <typename T>
std::vector<T> values(const std::vector<NamedTensor>& tensors, std::string_view name) {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == name) return {tensor.tensor.as<T>().begin(), tensor.tensor.as<T>().end()};
  }
  return {};
}

/// The packed RGB of a picture of `width` x `height` that lies in patches of 14 x 14 pixels in
/// groups of 2 x 2.
inline std::vector<std::uint8_t> picture_of(const std::vector<std::uint8_t>& patches,
                                            std::int32_t columns, std::int32_t width,
                                            std::int32_t height) {
  std::vector<std::uint8_t> rgb;
  rgb.reserve(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  for (std::int32_t y = 0; y < height; ++y) {
    for (std::int32_t x = 0; x < width; ++x) {
      const std::int32_t row = y / 14;
      const std::int32_t column = x / 14;
      const std::int32_t group = row / 2 * (columns / 2) + column / 2;
      const std::int32_t patch = 4 * group + row % 2 * 2 + column % 2;
      const auto pixel =
          patches.begin() + ((patch * 14 + y % 14) * 14 + x % 14) * std::ptrdiff_t{3};
      rgb.insert(rgb.end(), pixel, pixel + 3);
    }
  }
  return rgb;
}

}  // namespace isocost::test
