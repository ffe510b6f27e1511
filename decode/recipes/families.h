#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "decode/prepare/model_files.h"
#include "decode/prepare/recipe_family.h"
#include "decode/shape/recipe_options.h"

namespace isocost {

/// A family that can be chosen.
struct FamilyEntry {
  std::string_view name;
  /// Values of `model_type` in the models' config.json.
  std::span<const std::string_view> model_types;
  /// Makes the family from a model's directory. Errors: kUnsupported with file, key and value.
  Result<Family> (*read)(ModelFiles& files);
  /// Makes the family from its description. Errors: kCorrupt.
  Result<Family> (*parse)(std::string_view description);
};

/// Returns the entry of a family; null if there is none of this name.
const FamilyEntry* find_family(std::string_view name);
/// Returns the family of a model. Errors: kUnsupported with the model types that are supported.
Result<const FamilyEntry*> family_of_model(const ModelFiles& files);

// Make the families; each function is defined in the file of its family.
Result<Family> make_native28(const Native28Options& options);
Result<Family> parse_native28(std::string_view description);
Result<Family> read_internvl(ModelFiles& files);
Result<Family> parse_internvl(std::string_view description);
Result<Family> read_llava(ModelFiles& files);
Result<Family> parse_llava(std::string_view description);
Result<Family> read_llava_onevision(ModelFiles& files);
Result<Family> parse_llava_onevision(std::string_view description);
Result<Family> read_qwen2_audio(ModelFiles& files);
Result<Family> parse_qwen2_audio(std::string_view description);
Result<Family> read_qwen2_vl(ModelFiles& files);
Result<Family> parse_qwen2_vl(std::string_view description);
Result<Family> read_whisper(ModelFiles& files);
Result<Family> parse_whisper(std::string_view description);

}  // namespace isocost
