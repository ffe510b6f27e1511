#include "loader/dataset/formats/internal/energon_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "decode/bytes/media_bytes.h"
#include "loader/dataset/formats/internal/shown_begin.h"

namespace isocost {
namespace {

using Kind = MetaValue::Kind;

struct Type {
  std::string_view sample;  // the name of its sample type
  std::string_view reader;  // the class of older dataset.yaml files
  EnergonType type;
  std::array<std::string_view, 2> needed;  // fields
  std::array<std::string_view, 3> known;
};

constexpr std::array kTypes = {
    Type{"CaptioningSample",
         "CaptioningWebdataset",
         EnergonType::kCaptioning,
         {"image", "caption"},
         {"image", "caption"}},
    Type{"VQASample",
         "VQAWebdataset",
         EnergonType::kVqa,
         {"image", "context"},
         {"image", "context", "answers"}},
    Type{"TextSample", "TextWebdataset", EnergonType::kText, {"text"}, {"text"}},
    Type{"ImageSample", "ImageWebdataset", EnergonType::kImage, {"image"}, {"image"}},
};
constexpr std::string_view kCrude = "CrudeWebdataset";

constexpr std::string_view kInstead =
    "write what it makes into the shards (isocost make-shards), or give a field_map";

bool has_own_module(const MetaValue& named) {
  const MetaValue* module = named.find("__module__");
  if (module == nullptr) return false;
  const std::string_view name = module->scalar();
  return name == "megatron.energon" || name.starts_with("megatron.energon.");
}

// Returns the name of the class that a map names, or an error for one that is not Energon's own.
Result<std::string> class_of(const MetaValue& named) {
  const MetaValue* name = named.find("__class__");
  if (name == nullptr || !name->is(Kind::kText)) return corrupt("it names no '__class__'");
  if (has_own_module(named)) return name->scalar();
  const MetaValue* module = named.find("__module__");
  return Error(ErrorCode::kUnsupported,
               fmt::format("the class '{}.{}' is code of the data set, which is not run; {}",
                           module != nullptr ? shown_begin(module->scalar()) : "",
                           shown_begin(name->scalar()), kInstead));
}

Error unknown_type(std::string_view name) {
  return {
      ErrorCode::kUnsupported,
      fmt::format("samples of Energon's class '{}' are not read; CaptioningSample, VQASample, "
                  "TextSample, ImageSample and CrudeWebdataset are: write the samples in such a "
                  "form, or as conversations (isocost make-shards)",
                  shown_begin(name))};
}

// Returns the row of the samples; null: they are crude.
Result<const Type*> type_of(const MetaValue& dataset) {
  if (const MetaValue* sample = dataset.find("sample_type")) {
    ISOCOST_ASSIGN(const std::string name, class_of(*sample));
    const auto* const found = std::ranges::find(kTypes, name, &Type::sample);
    return found == kTypes.end() ? Result<const Type*>(unknown_type(name)) : found;
  }
  if (dataset.find("__class__") == nullptr) {
    return corrupt("it names neither a 'sample_type' nor a '__class__'");
  }
  ISOCOST_ASSIGN(const std::string name, class_of(dataset));
  if (name == kCrude) return static_cast<const Type*>(nullptr);
  const auto* const found = std::ranges::find(kTypes, name, &Type::reader);
  return found == kTypes.end() ? Result<const Type*>(unknown_type(name)) : found;
}

Status refuse_code(const MetaValue& dataset) {
  const MetaValue* loader = dataset.find("sample_loader");
  if (loader == nullptr) return {};
  return Error(ErrorCode::kUnsupported,
               fmt::format("the sample_loader '{}' is code of the data set, which is not run; {}",
                           shown_begin(loader->scalar()), kInstead));
}

Status check_keys(const MetaValue& dataset, EnergonFields& result) {
  constexpr std::array<std::string_view, 5> kKnown = {"__module__", "__class__", "sample_type",
                                                      "field_map", "part_filter"};
  // How Energon decodes media, and labels for code of the trainer.
  constexpr std::array<std::string_view, 8> kWithoutEffect = {
      "subflavors",   "subflavor", "decoder",       "auto_decode",
      "image_decode", "av_decode", "guess_content", "video_decode_audio"};
  for (const auto& [key, value] : dataset.members()) {
    if (std::ranges::find(kKnown, key) != kKnown.end()) continue;
    if (std::ranges::find(kWithoutEffect, key) == kWithoutEffect.end()) {
      return Error(
          ErrorCode::kUnsupported,
          fmt::format("the key '{}' is not read; remove it if it is not needed", shown_begin(key)));
    }
    result.without_effect.push_back(key);
  }
  return {};
}

Status read_part_filter(const MetaValue& filter, EnergonFields& result) {
  if (filter.is(Kind::kList)) {
    for (const MetaValue& part : filter.items()) {
      if (!part.is(Kind::kText)) return corrupt("'part_filter' holds what is no name of a part");
      result.part_filter.push_back(part.scalar());
    }
    if (!result.part_filter.empty()) return {};
    return corrupt("'part_filter' names no part");
  }
  return Error(ErrorCode::kUnsupported,
               fmt::format("the part_filter '{}' is code of the data set, which is not run; give a "
                           "list of parts, or use ignore_parts",
                           shown_begin(filter.scalar())));
}

Status read_field_map(const MetaValue& map, const Type& type, EnergonFields& result) {
  if (!map.is(Kind::kMap)) return corrupt("'field_map' is no map");
  for (const auto& [field, access] : map.members()) {
    if (type.type == EnergonType::kVqa && field == "answer_weights") {
      result.without_effect.emplace_back("field_map.answer_weights");
      continue;
    }
    if (std::ranges::find(type.known, field) == type.known.end()) {
      return corrupt(fmt::format("'field_map' has '{}', which is no field of {}",
                                 shown_begin(field), type.sample));
    }
    if (!access.is(Kind::kText)) {
      return corrupt(fmt::format("'field_map.{}' is no text such as json[{}]", field, field));
    }
    auto options = parse_field_access(access.scalar());
    if (!options) return std::move(options).error().with_context("field_map." + field);
    result.fields.emplace(field, *std::move(options));
  }
  for (const std::string_view needed : type.needed) {
    if (!needed.empty() && !result.fields.contains(needed)) {
      return corrupt(fmt::format("'field_map' lacks '{}', which each {} has", needed, type.sample));
    }
  }
  return {};
}

}  // namespace

Result<EnergonFields> energon_fields(const MetaValue& dataset) {
  if (!dataset.is(Kind::kMap)) return corrupt("it is no map");
  EnergonFields result;
  ISOCOST_TRY(refuse_code(dataset));
  ISOCOST_ASSIGN(const Type* type, type_of(dataset));
  ISOCOST_TRY(check_keys(dataset, result));
  if (type == nullptr) {
    if (dataset.find("field_map") != nullptr) {
      return corrupt("it has a 'field_map', which CrudeWebdataset does not read");
    }
    const MetaValue* filter = dataset.find("part_filter");
    if (filter != nullptr) ISOCOST_TRY(read_part_filter(*filter, result));
    return result;
  }
  result.type = type->type;
  if (dataset.find("part_filter") != nullptr) {
    return corrupt("it has a 'part_filter' beside a 'field_map'; remove it");
  }
  const MetaValue* map = dataset.find("field_map");
  if (map == nullptr) return corrupt("it has no 'field_map'");
  ISOCOST_TRY(read_field_map(*map, *type, result));
  return result;
}

}  // namespace isocost
