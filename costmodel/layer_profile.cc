#include "costmodel/layer_profile.h"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/json_object.h"
#include "base/load.h"
#include "base/result.h"
#include "costmodel/internal/profile_points.h"
#include "costmodel/measured_module.h"

namespace isocost {
namespace {

using nlohmann::json;

struct LayerJson {
  using Object = json;
  using List = json;
  static json object() { return json::object(); }
  static json list() { return json::array(); }
  static void append(json& list, json value) { list.push_back(std::move(value)); }
};

constexpr std::int64_t kLayerVersion = 1;
constexpr JsonFormat kLayerFormat{.name = "layer profile",
                                  .max_bytes = std::size_t{1} << 20,
                                  .max_depth = 8,
                                  .remedy = "measure the layers again"};

Result<LayerProfile::Module> parse_layers(const JsonObject& object) {
  constexpr std::int64_t kMostLayers = std::int64_t{1} << 20;
  ISOCOST_TRY(object.only_keys({"layers", "points", "out_of_memory"}));
  LayerProfile::Module module;
  ISOCOST_ASSIGN(module.layers, object.whole("layers", 1, kMostLayers));
  ISOCOST_ASSIGN(module.points, parse_points(object));
  if (module.points.empty()) {
    return object.wrong("points", "is empty: no load was measured; measure smaller loads");
  }
  if (object.has("out_of_memory")) {
    ISOCOST_ASSIGN(const JsonObject load, object.object("out_of_memory"));
    ISOCOST_ASSIGN(module.out_of_memory, parse_load(load));
  }
  return module;
}

Result<LayerProfile> read_layers(const JsonObject& document) {
  ISOCOST_TRY(document.check_version(kLayerVersion));
  // A document without a kind may be a whole model's, whose seconds mean something else.
  if (auto kind = document.text("kind"); !kind) return std::move(kind).error();
  ISOCOST_ASSIGN(const std::string unit, document.text("unit"));
  if (unit != "seconds") return document.wrong("unit", "must be \"seconds\"");
  ISOCOST_TRY(document.only_keys({"version", "kind", "unit", "modules"}));
  ISOCOST_ASSIGN(const JsonObject modules, document.object("modules"));
  ISOCOST_TRY(modules.only_keys({module_name(CostModule::kVision), module_name(CostModule::kAudio),
                                 module_name(CostModule::kLlm)}));
  LayerProfile profile;
  for (std::size_t m = 0; m < kModules; ++m) {
    const auto name = module_name(static_cast<CostModule>(m));
    if (!modules.has(name)) continue;
    ISOCOST_ASSIGN(const JsonObject object, modules.object(name));
    ISOCOST_ASSIGN(profile.modules.at(m), parse_layers(object));
  }
  return profile;
}

}  // namespace

std::string LayerProfile::to_json() const {
  json of_modules = json::object();
  for (std::size_t m = 0; m < kModules; ++m) {
    const auto& layers = modules.at(m);
    if (!layers) continue;
    json& module = of_modules[std::string(module_name(static_cast<CostModule>(m)))];
    module["layers"] = layers->layers;
    MeasuredModule<LayerJson>::add(layers->points, {}, layers->out_of_memory, module);
  }
  const json document = {{"version", kLayerVersion},
                         {"kind", kLayerFormat.name},
                         {"unit", "seconds"},
                         {"modules", std::move(of_modules)}};
  return document.dump();
}

Result<LayerProfile> LayerProfile::parse(std::string_view json) {
  ISOCOST_ASSIGN(const JsonObject document, JsonObject::parse(json, kLayerFormat));
  return read_layers(document);
}

}  // namespace isocost
