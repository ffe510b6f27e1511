#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/byte_source.h"
#include "base/load.h"
#include "base/result.h"
#include "base/sample_part.h"
#include "base/tensor.h"
#include "base/tensor_schema.h"
#include "decode/decode_limit.h"
#include "decode/sample_shape.h"

namespace isocost {

class RecipeFamily;

/// Which side of a picture is resized first where both change. What lies between the two passes is
/// rounded to 8 bits, so the order shows in the result.
enum class ResizeOrder : std::uint8_t {
  /// As torchvision does, and Pillow before 13. (Pillow 12.2 and 12.3 begin with the height of
  /// images over 100 times as tall as wide, if it shrinks.)
  kWidthFirst,
  /// As Pillow 13: height first if it shrinks by more than twice the pixels that width does, often
  /// so where sides are rounded to multiples of a patch: 640×480 to 644×476.
  kPillow13,
};

/// How near a model's pictures are to those of its own processor.
enum class Exactness : std::uint8_t {
  kExact,  ///< Byte for byte.
  /// JPEGs are scaled down to a half, a quarter or an eighth while they are decoded, as long as
  /// they are not smaller than what they are resized to. Their inverse transform, their colours
  /// and the weights of resizing are coarser.
  kFast,
};

/// What becomes of the transparency of a model's pictures.
enum class Alpha : std::uint8_t {
  kWhite,  ///< They are composed on white, as qwen-vl-utils does.
  kDrop,   ///< It is ignored, as Pillow's `convert("RGB")` does: the colour behind it appears.
};

/// How a model wants its media prepared: by its own directory, or by `native28` and its numbers.
struct RecipeOptions {
  /// A model's directory, as transformers' from_pretrained takes it. Its files say everything, so
  /// the options from `name` on must be left alone. Empty: native28.
  std::filesystem::path model;
  // Of a model's pictures.
  ResizeOrder resize_order = ResizeOrder::kWidthFirst;
  Exactness exactness = Exactness::kExact;
  Alpha alpha = Alpha::kWhite;
  std::string name = "native28";
  std::int32_t max_image_patches = 4096;  ///< Of 14×14 pixels; larger images are scaled down.
  std::int32_t max_frame_patches = 1024;  ///< The same limit for a video frame.
  double video_fps = 1.0;                 ///< Frames sampled a second of video.
  std::int32_t max_video_frames = 32;
  double max_audio_seconds = 120.0;     ///< Longer audio is cut.
  std::int32_t max_text_tokens = 8192;  ///< Longer text parts are cut.
  /// Whether somebody set `name` or a number above, be it to its default: not beside a model.
  bool given = false;

  /// Errors: kInvalidArgument with field, value and allowed range.
  Status validate() const;
  bool operator==(const RecipeOptions&) const = default;
};

/// Token ids of the byte-level vocabulary: UTF-8 bytes are themselves.
inline constexpr std::int64_t kTokenBos = 256;
inline constexpr std::int64_t kTokenEos = 257;
inline constexpr std::int64_t kTokenVision =
    258;  ///< One for each 2×2 patches, replaced by the encoder's output.
inline constexpr std::int64_t kTokenAudio = 259;  ///< One for each 4 mel frames, likewise.
inline constexpr std::int64_t kVocabulary = 260;

/// The bytes and the shape of one part.
struct PartBytes {
  const PartShape* shape = nullptr;
  const ByteSource* source = nullptr;
};

/// One of a sample's tensors before it is made.
struct TensorPlan {
  const TensorEntry* entry = nullptr;
  std::vector<std::int64_t> shape;
};

/// Why a sample has no tensors, and the index of the part at fault.
struct PartError {
  Error error;
  std::size_t part = 0;
};

/// Computes loads from shapes, in integer arithmetic, and tensors from bytes. Both agree exactly.
/// `native28`:
///
/// - an image keeps its native resolution, each side rounded to the nearest multiple of 28 (at
///   least 28) and scaled down, aspect kept, where it has more than `max_image_patches` patches of
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
///                                             less 8, then (x + 4) / 4. Of a model for sound: as
///                                             many bins as it wants
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
  /// Errors: those of RecipeOptions::validate; kNotFound for a directory without the files that are
  /// needed; kInvalidArgument with file, key and value for a model that Isocost has no recipe for,
  /// and for a file that is no JSON; kIo.
  static Result<Recipe> create(const RecipeOptions& options);
  /// Makes the same recipe of its description. Errors: kCorrupt, kInvalidArgument.
  static Result<Recipe> parse(std::string_view description);

  /// Returns the load of a sample. Errors: kResourceExhausted (more than 2^28 tokens);
  /// kInvalidArgument for a shape without parts, or a part of impossible size.
  Result<Load> load(const SampleShape& shape) const;
  /// Returns what each part adds to it; of the LLM, whose sequence is the sample, tokens alone.
  Result<std::vector<Load>> part_loads(const SampleShape& shape) const;

  /// Returns what `tensors` makes of each part: patch grids, numbers of frames and the times of
  /// sampled video frames. Errors: those of `load`.
  Result<std::vector<SamplePart>> parts(const SampleShape& shape) const;

  /// The same of one part by itself.
  Result<SamplePart> part(const PartShape& shape) const;
  /// Returns the number of tokens that stand for a medium in its sample's text. Errors: those of
  /// `load`.
  Result<std::int64_t> placeholders(const PartShape& shape) const;
  /// Returns what the text of a sample depends on beside the tokenizer: models may name the times
  /// of a video's frames in it. Empty if on nothing.
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
