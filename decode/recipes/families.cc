// The table of families. A new one is a file beside this one, an entry here and a page in docs.

#include "decode/recipes/families.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/result.h"
#include "decode/prepare/model_files.h"

namespace isocost {
namespace {

constexpr std::array<std::string_view, 1> kInternVlTypes = {"internvl"};
constexpr std::array<std::string_view, 1> kLlavaTypes = {"llava"};
constexpr std::array<std::string_view, 1> kLlavaOneVisionTypes = {"llava_onevision"};
constexpr std::array<std::string_view, 1> kQwen2AudioTypes = {"qwen2_audio"};
constexpr std::array<std::string_view, 3> kQwen2VlTypes = {"qwen2_vl", "qwen2_5_vl", "qwen3_vl"};
constexpr std::array<std::string_view, 1> kWhisperTypes = {"whisper"};

constexpr std::array kFamilies = {
    FamilyEntry{"native28", {}, nullptr, parse_native28},
    FamilyEntry{"internvl", kInternVlTypes, read_internvl, parse_internvl},
    FamilyEntry{"llava", kLlavaTypes, read_llava, parse_llava},
    FamilyEntry{"llava_onevision", kLlavaOneVisionTypes, read_llava_onevision,
                parse_llava_onevision},
    FamilyEntry{"qwen2_audio", kQwen2AudioTypes, read_qwen2_audio, parse_qwen2_audio},
    FamilyEntry{"qwen2_vl", kQwen2VlTypes, read_qwen2_vl, parse_qwen2_vl},
    FamilyEntry{"whisper", kWhisperTypes, read_whisper, parse_whisper},
};

}  // namespace

const FamilyEntry* find_family(std::string_view name) {
  const auto found = std::ranges::find(kFamilies, name, &FamilyEntry::name);
  return found == kFamilies.end() ? nullptr : &*found;
}

Result<const FamilyEntry*> family_of_model(const ModelFiles& files) {
  if (files.model_type == "internvl_chat") {
    return Error(
        ErrorCode::kUnsupported,
        files.config.file() +
            ": model_type is \"internvl_chat\", InternVL's form with code of its own; take "
            "transformers' own form of the model, of model_type \"internvl\", whose name "
            "ends in -hf: OpenGVLab/InternVL3-1B-hf");
  }
  std::string known;
  for (const FamilyEntry& entry : kFamilies) {
    for (const std::string_view type : entry.model_types) {
      if (type == files.model_type) return &entry;
      known += (known.empty() ? "" : ", ") + std::string(type);
    }
  }
  return Error(ErrorCode::kUnsupported,
               files.config.file() + ": model_type is \"" + files.model_type +
                   "\", for which there is no recipe; there is one for " + known);
}

}  // namespace isocost
