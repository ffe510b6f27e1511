#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "decode/shape/image_size.h"

namespace isocost {

/// The side of a picture that is resized first if both change. Values between the two passes are
/// rounded to 8 bits, so the order shows in the result.
enum class ResizeOrder : std::uint8_t {
  /// The order of torchvision, and of Pillow before 13. (Pillow 12.2 and 12.3 begin with the height
  /// of images over 100 times as tall as wide, if it shrinks.)
  kWidthFirst,
  /// The order of Pillow 13: height first if it shrinks by more than twice the pixels that width
  /// does, often so where sides are rounded to multiples of a patch: 640×480 to 644×476.
  kPillow13,
};

/// Accuracy of a model's pictures, compared with those of its own processor.
enum class Exactness : std::uint8_t {
  kExact,  ///< Byte for byte.
  /// JPEGs are scaled down to a half, a quarter or an eighth while they are decoded, but not below
  /// the size to which they are resized. Their inverse transform, their colours and the weights of
  /// resizing are coarser.
  kFast,
};

/// Treatment of the transparency of a model's pictures.
enum class Alpha : std::uint8_t {
  kWhite,  ///< Pictures are composed on white, as qwen-vl-utils does.
  kDrop,  ///< Opacity is ignored, as by Pillow's `convert("RGB")`: a pixel keeps its stored colour.
};

/// Treatment of pictures whose file ends before their last pixel.
enum class Truncated : std::uint8_t {
  kBad,  ///< Their samples are bad.
  /// They are what Pillow makes of them with LOAD_TRUNCATED_IMAGES: what is missing is grey in a
  /// JPEG and zero elsewhere. Damage within the pixels counts as their end.
  kAccept,
};

/// Preparation of media by a model's own directory.
struct ModelRecipeOptions {
  /// The one that transformers' from_pretrained takes. Its files contain all settings but these.
  std::filesystem::path directory;
  ResizeOrder resize_order = ResizeOrder::kWidthFirst;
  Exactness exactness = Exactness::kExact;
  Alpha alpha = Alpha::kWhite;
  Truncated truncated = Truncated::kBad;
  ImageSize image_size = {};  ///< Pictures alone; videos have the sizes of the directory.
};

/// Preparation of media by `native28`, which needs no model.
struct Native28Options {
  static constexpr std::string_view kName = "native28";

  std::int32_t max_image_patches =
      4096;  ///< In patches of 14×14 pixels; larger images are scaled down.
  std::int32_t max_frame_patches =
      1024;                ///< In patches of a video frame; larger frames are scaled down.
  double video_fps = 1.0;  ///< Frames sampled a second of video.
  std::int32_t max_video_frames = 32;
  double max_audio_seconds = 120.0;     ///< Longer audio is cut.
  std::int32_t max_text_tokens = 8192;  ///< Longer text parts are cut.
  Truncated truncated = Truncated::kBad;

  /// Checks the values. Errors: kInvalidArgument with field, value and allowed range.
  Status validate() const;
};

/// Preparation of media: by `native28`, or by a model's own directory.
using RecipeOptions = std::variant<Native28Options, ModelRecipeOptions>;

/// Returns the model's directory; empty for native28.
std::filesystem::path model_directory(const RecipeOptions& options);

/// Returns the flags with which commands plan samples in the same way, each after a space, without
/// settings that have their defaults: " --max-image-patches 512". The model's directory and what
/// changes values alone are left out.
std::string size_flags(const RecipeOptions& options);

/// Checks the values. Errors: those of Native28Options::validate.
Status validate_recipe(const RecipeOptions& options);

/// Token ids of the byte-level vocabulary: UTF-8 bytes are themselves.
inline constexpr std::int64_t kTokenBos = 256;
inline constexpr std::int64_t kTokenEos = 257;
inline constexpr std::int64_t kTokenVision =
    258;  ///< One for each 2×2 patches; the encoder's output replaces it.
inline constexpr std::int64_t kTokenAudio =
    259;  ///< One for each 4 mel frames; the encoder's output replaces it.
inline constexpr std::int64_t kVocabulary = 260;

}  // namespace isocost
