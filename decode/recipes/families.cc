// The table of families. A new one is a file beside this one, an entry here and a page in docs.

#include "decode/recipes/families.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "decode/prepare/model_files.h"

namespace isocost {
namespace {

using Classes = std::array<std::string_view, 1>;
constexpr Classes kGotOcr2 = {"GotOcr2ImageProcessor"};
constexpr std::array<std::string_view, 2> kClipOrSiglip = {"CLIPImageProcessor",
                                                           "SiglipImageProcessor"};
constexpr Classes kLlavaOneVision = {"LlavaOnevisionImageProcessor"};
constexpr Classes kQwen2Vl = {"Qwen2VLImageProcessor"};
constexpr Classes kWhisper = {"WhisperFeatureExtractor"};
constexpr std::string_view kQwen2VlVideos = "Qwen2VLVideoProcessor";
constexpr std::string_view kQwen3VlVideos = "Qwen3VLVideoProcessor";

constexpr std::array kInternVlTypes = {ModelType{"internvl", kGotOcr2, "InternVLVideoProcessor"}};
constexpr std::array kLlavaTypes = {ModelType{"llava", kClipOrSiglip}};
constexpr std::array kLlavaOneVisionTypes = {
    ModelType{"llava_onevision", kLlavaOneVision, "LlavaOnevisionVideoProcessor"}};
constexpr std::array kQwen2AudioTypes = {ModelType{"qwen2_audio", kWhisper}};
constexpr std::array kQwen2VlTypes = {
    ModelType{"qwen2_vl", kQwen2Vl, kQwen2VlVideos},
    ModelType{"qwen2_5_vl", kQwen2Vl, kQwen2VlVideos},
    ModelType{"qwen3_vl", kQwen2Vl, kQwen3VlVideos},
    ModelType{"qwen3_vl_moe", kQwen2Vl, kQwen3VlVideos, /*linear_attention=*/false,
              /*experts=*/true},
    ModelType{"qwen3_5", kQwen2Vl, kQwen3VlVideos, /*linear_attention=*/true},
    ModelType{"qwen3_5_moe", kQwen2Vl, kQwen3VlVideos, /*linear_attention=*/true,
              /*experts=*/true},
};
constexpr std::array kWhisperTypes = {ModelType{"whisper", kWhisper}};

// Keys of ImageSize.
constexpr std::array<std::string_view, 2> kPixels = {"max_pixels", "min_pixels"};
constexpr std::array<std::string_view, 2> kTiles = {"max_patches", "min_patches"};

constexpr std::array kFamilies = {
    FamilyEntry{"native28", {}, nullptr, parse_native28},
    FamilyEntry{"internvl", kInternVlTypes, read_internvl, parse_internvl, kTiles},
    FamilyEntry{"llava", kLlavaTypes, read_llava, parse_llava},
    FamilyEntry{"llava_onevision", kLlavaOneVisionTypes, read_llava_onevision,
                parse_llava_onevision},
    FamilyEntry{"qwen2_audio", kQwen2AudioTypes, read_qwen2_audio, parse_qwen2_audio},
    FamilyEntry{"qwen2_vl", kQwen2VlTypes, read_qwen2_vl, parse_qwen2_vl, kPixels},
    FamilyEntry{"whisper", kWhisperTypes, read_whisper, parse_whisper},
};

// Returns the number of letters to insert, remove or replace that make one name of the other.
std::size_t edits(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t replaced = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// Returns the class of a processor without the ending of its backend; "" where its file has none.
std::string class_of(const Settings& settings, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = settings.values().find(key);
    if (found == settings.values().end() || !found->is_string()) continue;
    auto name = found->get<std::string>();
    for (const std::string_view backend : {"Fast", "Pil"}) {
      if (name.ends_with(backend)) name.resize(name.size() - backend.size());
    }
    return name;
  }
  return "";
}

// Returns what an error says of the type whose name is nearest among those with the same
// processors; "" if there is none.
std::string nearest_type(const ModelFiles& files) {
  const std::string processor =
      class_of(files.image_processor, {"image_processor_type", "feature_extractor_type"});
  const std::string videos = class_of(files.video_processor, {"video_processor_type"});
  const ModelType* nearest = nullptr;
  for (const FamilyEntry& entry : kFamilies) {
    for (const ModelType& type : entry.model_types) {
      const bool is_alike = std::ranges::count(type.processors, processor) > 0 &&
                            (videos.empty() || type.video_processor == videos);
      if (is_alike && (nearest == nullptr || edits(type.name, files.model_type) <
                                                 edits(nearest->name, files.model_type))) {
        nearest = &type;
      }
    }
  }
  if (nearest == nullptr) return "";
  const std::string classes = processor + (videos.empty() ? "" : " and " + videos);
  return "; with the same " + classes + " the nearest is " + std::string(nearest->name) +
         ", but a type that was not compared may take other positions, masks or arguments";
}

Error without_recipe(const ModelFiles& files) {
  if (files.model_type == "internvl_chat") {
    return {ErrorCode::kUnsupported,
            files.config.file() +
                ": model_type is \"internvl_chat\", InternVL's form with code of its own; take "
                "transformers' own form of the model, of model_type \"internvl\", whose name "
                "ends in -hf: OpenGVLab/InternVL3-1B-hf"};
  }
  std::string known;
  for (const FamilyEntry& entry : kFamilies) {
    for (const ModelType& type : entry.model_types) {
      known += (known.empty() ? "" : ", ") + std::string(type.name);
    }
  }
  return {ErrorCode::kUnsupported, files.config.file() + ": model_type is \"" + files.model_type +
                                       "\", for which there is no recipe; there is one for " +
                                       known + nearest_type(files)};
}

// Sets the sizes of pictures that were given in place of the directory's.
Status replace_sizes(ModelFiles& files, const FamilyEntry& family) {
  std::string known;
  for (const std::string_view key : family.image_size) {
    known += (known.empty() ? "" : " and ") + std::string(key);
  }
  for (const auto& [key, value] : files.image_size) {
    if (std::ranges::count(family.image_size, std::string_view(key)) > 0) continue;
    std::string text = "image_size: models of type " + files.model_type;
    if (known.empty()) {
      text += " have no sizes of pictures to choose from: leave it out";
    } else {
      text.append(" take ").append(known).append(", and not ").append(key);
    }
    return Error(ErrorCode::kUnsupported, std::move(text));
  }
  files.image_processor.replace(files.image_size);
  return {};
}

}  // namespace

const FamilyEntry* find_family(std::string_view name) {
  const auto found = std::ranges::find(kFamilies, name, &FamilyEntry::name);
  return found == kFamilies.end() ? nullptr : &*found;
}

Result<Family> read_family(ModelFiles& files) {
  for (const FamilyEntry& entry : kFamilies) {
    const auto type = std::ranges::find(entry.model_types, files.model_type, &ModelType::name);
    if (type == entry.model_types.end()) continue;
    ISOCOST_TRY(replace_sizes(files, entry));
    return entry.read(files, *type);
  }
  return without_recipe(files);
}

}  // namespace isocost
