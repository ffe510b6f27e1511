#include "bench/paper/shape_loads.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/load.h"
#include "decode/recipe.h"
#include "decode/shape/sample_shape.h"

namespace isocost::paper {
namespace {

constexpr std::int32_t kFrameRate = 30;
constexpr std::int32_t kSampleRate = 16'000;

Modality modality_of(const std::string& name) {
  if (name == "audio") return Modality::kAudio;
  return name == "video" ? Modality::kVideo : Modality::kImage;
}

PartShape shape_of(const nlohmann::json& part) {
  PartShape shape{.modality = modality_of(part.at("modality"))};
  const double seconds = part.value("seconds", 0.0);
  shape.width = part.value("width", 0);
  shape.height = part.value("height", 0);
  if (shape.modality == Modality::kVideo) {
    shape.format = MediaFormat::kMp4;
    shape.sample_rate = kFrameRate;
    shape.channels = 1;
    shape.frames = std::max<std::int64_t>(1, std::llround(seconds * kFrameRate));
    shape.duration_us = std::llround(seconds * 1e6);
  } else if (shape.modality == Modality::kAudio) {
    shape.format = MediaFormat::kFlac;
    shape.sample_rate = kSampleRate;
    shape.channels = 1;
    shape.frames = std::llround(seconds * kSampleRate);
  } else {
    shape.format = MediaFormat::kJpeg;
    shape.channels = 3;
  }
  return shape;
}

Result<Load> load_of(const nlohmann::json& sample, const std::vector<Recipe>& recipes) {
  SampleShape shape;
  const std::int64_t tokens = sample.at("tokens");
  shape.parts.push_back(
      {.format = MediaFormat::kTokens, .text_tokens = tokens, .encoded_bytes = 4 * tokens});
  for (const auto& part : sample.at("parts")) shape.parts.push_back(shape_of(part));
  return recipes.at(sample.at("recipe").get<std::size_t>()).load(shape);
}

}  // namespace

Result<nlohmann::ordered_json> data_profile_of_shapes(const nlohmann::json& request) {
  std::vector<Recipe> recipes;
  for (const auto& description : request.at("recipes")) {
    ISOCOST_ASSIGN(Recipe recipe, Recipe::parse(description.dump()));
    recipes.push_back(std::move(recipe));
  }
  auto rows = nlohmann::ordered_json::array();
  for (const auto& sample : request.at("samples")) {
    ISOCOST_ASSIGN(const Load load, load_of(sample, recipes));
    auto row = nlohmann::ordered_json::array();
    for (const ModuleLoad& module : load.modules) {
      for (const std::int64_t value : {module.sequences, module.units, module.units_squared}) {
        row.push_back(value);
      }
    }
    row.push_back(load.label_tokens);
    row.push_back(load.tensor_bytes);
    rows.push_back(std::move(row));
  }
  auto columns = nlohmann::ordered_json::array();
  for (const char* module : {"vision", "audio", "llm"}) {
    for (const char* what : {"_sequences", "_units", "_units_squared"}) {
      columns.push_back(std::string(module) + what);
    }
  }
  columns.push_back("label_tokens");
  columns.push_back("tensor_bytes");
  return nlohmann::ordered_json{
      {"version", 3}, {"kind", "data profile"}, {"loads", {{"columns", columns}, {"rows", rows}}}};
}

}  // namespace isocost::paper
