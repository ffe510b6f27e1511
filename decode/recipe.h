#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/load.h"
#include "base/result.h"
#include "base/sample_part.h"
#include "base/tensor.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/recipe_options.h"
#include "decode/shape/sample_shape.h"
#include "decode/shape/tensor_plan.h"

namespace isocost {

class RecipeFamily;

/// The reason why a sample has no tensors, and the index of the part at fault.
struct PartError {
  Error error;
  std::size_t part = 0;
};

/// A sample for microbatches that lack media of a modality: placeholders of one medium and no
/// label.
struct DummySample {
  Load load;
  SamplePart part;
  std::vector<NamedTensor> tensors;
};

/// Computes loads from shapes, in integer arithmetic, and tensors from bytes. Both agree exactly.
/// `native28`:
///
/// - an image keeps its native resolution, each side rounded to the nearest multiple of 28 (at
///   least 28) and scaled down, aspect kept, if it has more than `max_image_patches` patches of
///   14×14; EXIF orientation is applied; alpha is composed on white, and of an animation the first
///   picture is used;
/// - a video gives n = min(max_video_frames, max(1, floor(duration × video_fps))) frames, those at
///   (2i + 1) / 2n of the duration for each i, each treated as an image of at most
///   `max_frame_patches`;
/// - audio is mixed to mono, resampled to 16 kHz, cut into windows of at most 30 s, each a 128-bin
///   log-mel (FFT 400, hop 160) of frames padded to a multiple of 4;
/// - text is its UTF-8 bytes; the sequence is BOS, the parts in order, EOS.
///
/// Tensors of a sample (see base/tensor_schema.h) have rows along the first dimension, where the
/// tensors of several samples are concatenated:
///
///     vision.patches   uint8 [patches, 588]   14×14×3 pixels (row, column, RGB) 0..255; the four
///                                             patches of a 2×2 group are neighbours, groups row by
///                                             row
///     vision.grids     int32 [images, 2]      patch rows and columns; an image or a video frame
///     vision.lengths   int32 [images]         patches of each
///     audio.mel        float32 [frames, 128]  log-mel, scaled like Whisper's: floor at the maximum
///                                             less 8, then (x + 4) / 4. A model for sound chooses
///                                             the number of bins
///     audio.lengths    int32 [windows]        frames of each window
///     llm.input_ids    int64 [tokens]
///     llm.labels       int64 [tokens]         the token at each position if the one before it is
///                                             to predict it, a text byte or EOS; kIgnoredLabel
///                                             elsewhere, and at a sample's first token
///     llm.position_ids int64 [tokens]         0, 1, ... within the sample
///     llm.lengths      int32 [1]              tokens
///
/// A modality that the sample lacks has no tensors. In the load, vision has images as sequences and
/// patches as units, audio has windows and frames / 2, and the LLM one sequence of tokens.
/// A model's directory chooses its family: docs/models.md says what each makes. All have these
/// tensors, in which a token is one of the model's own vocabulary and a patch of the model's own
/// size, and beside them
///
///     vision.media     int32 [media, 4]       for each image and video: 0 or 1 (a video), its rows
///                                             of vision.grids, its height and width as displayed
///     llm.rope_positions int32 [tokens, 3]    models with M-RoPE: time, row and column
///     llm.turn_weights float32 [tokens]       samples whose turns have weights: that of each token
///
/// A patch that spans several frames of a video has as many rows of vision.patches, one after
/// another, and is one unit of the load.
///
/// Immutable; const-safe; copies share what they hold.
class Recipe {
 public:
  /// Creates a recipe. Errors: those of validate_recipe; kNotFound for a directory that
  /// lacks required files; kInvalidArgument with file, key and value for a model that Isocost has
  /// no recipe for, and for a file that is not JSON; kIo.
  static Result<Recipe> create(const RecipeOptions& options);
  /// Makes the same recipe of its description. Errors: kCorrupt, kInvalidArgument.
  static Result<Recipe> parse(std::string_view description);

  /// Returns the load of a sample. Errors: kResourceExhausted (more than 2^28 tokens);
  /// kInvalidArgument for a shape without parts, or a part of impossible size.
  Result<Load> load(const SampleShape& shape) const;
  /// Returns each part's contribution to the load; for the LLM, whose sequence is the sample,
  /// tokens alone.
  Result<std::vector<Load>> part_loads(const SampleShape& shape) const;

  /// Returns the sample that stands in where a microbatch lacks media of a modality, so that the
  /// model's encoder runs for it, too: one medium as small as the model takes, of zeros. Returns
  /// nothing if the recipe takes no media of the modality in text, and where the encoder sees
  /// them together with those of another. The tensors are from `pool`.
  std::optional<DummySample> dummy(Modality modality, BufferPool& pool) const;
  /// Returns the modality with whose media the encoder sees those of `modality`, in one call.
  Modality encoder_call(Modality modality) const;

  /// Returns a description of each part as `tensors` makes it: patch grids, numbers of frames and
  /// the times of sampled video frames. Errors: those of `load`.
  Result<std::vector<SamplePart>> parts(const SampleShape& shape) const;

  /// Returns the description of a single part.
  Result<SamplePart> part(const PartShape& shape) const;
  /// Returns the number of tokens that represent a medium in its sample's text. Errors: those of
  /// `load`.
  Result<std::int64_t> placeholders(const PartShape& shape) const;
  /// Returns the settings, other than the tokenizer, on which the text of a sample depends: models
  /// may name the times of a video's frames in it. Empty if there are none.
  std::string text_settings() const;

  /// Returns the tensors that `tensors` makes, in their order. Errors: those of `load`.
  Result<std::vector<TensorPlan>> tensor_plans(const SampleShape& shape) const;

  /// Returns the peak memory of `tensors` in bytes, its result included. Errors: those of `load`.
  Result<std::int64_t> working_set_bytes(const SampleShape& shape) const;

  /// Decodes and prepares a sample. Blocks on reads, and computes on the calling thread. The
  /// tensors own their memory, from `pool`. Errors: kCorrupt (truncated media, text that is not
  /// UTF-8, audio without samples or with NaN, a stream that ends early), kUnsupported, kIo, those
  /// of `limit`. If no single part is at fault, the error names part 0.
  tl::expected<std::vector<NamedTensor>, PartError> tensors(std::span<const PartBytes> parts,
                                                            BufferPool& pool,
                                                            const DecodeLimit& limit = {}) const;

  /// Returns the family and all its numbers, as JSON of less than 2 KiB.
  std::string description() const;
  /// Returns a 64-bit hash of the description. Loads depend on it, so it is a part of the
  /// fingerprints of plans and clients.
  std::uint64_t fingerprint() const;

 private:
  explicit Recipe(std::shared_ptr<const RecipeFamily> family) : family_(std::move(family)) {}
  std::shared_ptr<const RecipeFamily> family_;
};

}  // namespace isocost
