#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "decode/prepare/model_files.h"
#include "decode/prepare/recipe_family.h"
#include "decode/shape/recipe_options.h"

namespace isocost {

/// A type of model whose recipe was compared with transformers' processors and model.
struct ModelType {
  std::string_view name;  ///< `model_type` in config.json.
  /// Classes of its image processor, or of its feature extractor, without "Fast" and "Pil".
  std::span<const std::string_view> processors;
  std::string_view video_processor = {};  ///< Class; empty if the recipe takes no videos.
  bool linear_attention = false;  ///< Layers carry a state from each token to all that follow.
  bool experts = false;           ///< Layers of its LLM are mixtures of experts.
};

/// A family that can be chosen.
struct FamilyEntry {
  std::string_view name;
  std::span<const ModelType> model_types;
  /// Makes the family from a model's directory. Errors: kUnsupported with file, key and value.
  Result<Family> (*read)(ModelFiles& files, const ModelType& type);
  /// Makes the family from its description. Errors: kCorrupt.
  Result<Family> (*parse)(std::string_view description);
  /// Keys of the image processor for which ImageSize may have other values.
  std::span<const std::string_view> image_size = {};
};

/// Returns the entry of a family; null if there is none of this name.
const FamilyEntry* find_family(std::string_view name);
/// Makes the family of a model from its directory, with the sizes of files.image_size in place of
/// the directory's. Errors: kUnsupported with file, key and value; for a size that the family has
/// no key for; for a type that is in no entry with the types that are, and with the nearest of
/// those that have its processors.
Result<Family> read_family(ModelFiles& files);

// Make the families; each function is defined in the file of its family.
Result<Family> make_native28(const Native28Options& options);
Result<Family> parse_native28(std::string_view description);
Result<Family> read_internvl(ModelFiles& files, const ModelType& type);
Result<Family> parse_internvl(std::string_view description);
Result<Family> read_llava(ModelFiles& files, const ModelType& type);
Result<Family> parse_llava(std::string_view description);
Result<Family> read_llava_onevision(ModelFiles& files, const ModelType& type);
Result<Family> parse_llava_onevision(std::string_view description);
Result<Family> read_qwen2_audio(ModelFiles& files, const ModelType& type);
Result<Family> parse_qwen2_audio(std::string_view description);
Result<Family> read_qwen2_vl(ModelFiles& files, const ModelType& type);
Result<Family> parse_qwen2_vl(std::string_view description);
Result<Family> read_whisper(ModelFiles& files, const ModelType& type);
Result<Family> parse_whisper(std::string_view description);

}  // namespace isocost
