// Strict parser and writer of the model profile. The schema is in docs/model_profile.md.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/json_object.h"
#include "base/load.h"
#include "base/result.h"
#include "base/units.h"
#include "costmodel/internal/profile_points.h"
#include "costmodel/measured_module.h"
#include "costmodel/predictor.h"
#include "costmodel/profile.h"

namespace isocost {
namespace {

using nlohmann::json;

constexpr int kProfileVersion = 1;
constexpr JsonFormat kFormat{.name = "model profile",
                             .max_bytes = std::size_t{1} << 20,
                             .max_depth = 8,
                             .remedy = "measure the model profile again"};
constexpr std::size_t kMostCuts = 64;
// Smallest stated weight that is not 0. It keeps the learned factors finite.
constexpr double kLeastWeight = 1e-18;

struct Term {
  const char* name;
  double ModuleCoefficients::* field;
};
constexpr Term kTerms[] = {{"per_microbatch", &ModuleCoefficients::per_microbatch},
                           {"per_sequence", &ModuleCoefficients::per_sequence},
                           {"per_unit", &ModuleCoefficients::per_unit},
                           {"per_unit_squared", &ModuleCoefficients::per_unit_squared}};

struct Dimension {
  const char* name;
  std::int64_t Architecture::* field;
  std::int64_t least;
};
constexpr Dimension kDimensions[] = {
    {"layers", &Architecture::layers, 1},
    {"width", &Architecture::width, 1},
    {"heads", &Architecture::heads, 1},
    {"key_value_width", &Architecture::key_value_width, 1},
    {"mlp", &Architecture::mlp, 1},
    {"embedding_parameters", &Architecture::embedding_parameters, 0},
    {"head_flop_per_unit", &Architecture::head_flop_per_unit, 0},
};

Result<Architecture> parse_architecture(const JsonObject& object) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  ISOCOST_TRY(object.only_keys({"name", "layers", "width", "heads", "key_value_width", "mlp",
                                "gated", "embedding_parameters", "head_flop_per_unit", "experts"}));
  Architecture architecture;
  ISOCOST_ASSIGN(architecture.name, object.text("name"));
  ISOCOST_ASSIGN(architecture.gated, object.flag("gated"));
  for (const Dimension& dimension : kDimensions) {
    ISOCOST_ASSIGN(architecture.*dimension.field,
                   object.whole(dimension.name, dimension.least, kMost));
  }
  if (object.has("experts")) {
    ISOCOST_ASSIGN(architecture.experts, object.whole("experts", 1, kMost));
  }
  // Largest value of these sides, whose products are counted in 64 bits.
  constexpr std::int64_t kMostSide = std::int64_t{1} << 20;
  for (const auto& [name, value] : {std::pair{"layers", architecture.layers},
                                    {"width", architecture.width},
                                    {"key_value_width", architecture.key_value_width},
                                    {"mlp", architecture.mlp}}) {
    if (value > kMostSide) return object.wrong(name, "must be at most 1048576");
  }
  return architecture;
}

Result<ProfileCut> parse_cut(const JsonObject& object) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  ISOCOST_TRY(object.only_keys({"tensor", "layers", "points"}));
  ProfileCut cut;
  ISOCOST_ASSIGN(cut.tensor, object.whole("tensor", 1, kMost));
  if (object.has("layers")) {
    ISOCOST_ASSIGN(cut.layers, object.whole("layers", 1, kMost));
  }
  if (cut.tensor == 1 && cut.layers == 0) {
    return object.wrong("tensor",
                        "is 1 and 'layers' is missing: this is the whole module, not a cut");
  }
  ISOCOST_ASSIGN(cut.points, parse_points(object));
  return cut;
}

Status check_cuts(const ModuleProfile& profile, const JsonObject& module) {
  for (std::size_t i = 0; i < profile.cuts.size(); ++i) {
    const ProfileCut& cut = profile.cuts[i];
    const std::string field = "cuts." + std::to_string(i);
    if (cut.layers > 0 && !profile.architecture) {
      return module.wrong(field, "has fewer layers, but 'architecture' is missing");
    }
    const std::int64_t layers = profile.architecture ? profile.architecture->layers : 0;
    if (cut.layers > 0 && cut.layers >= layers) {
      return module.wrong(field, "must have fewer layers than the " + std::to_string(layers) +
                                     " of 'architecture'");
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (profile.cuts[j].tensor != cut.tensor || profile.cuts[j].layers != cut.layers) continue;
      return module.wrong(field, "has the same tensor and layers as cut " + std::to_string(j));
    }
  }
  return {};
}

Result<ModuleProfile> parse_measured(const JsonObject& module) {
  ISOCOST_TRY(
      module.only_keys({"points", "out_of_memory", "architecture", "cuts", "forward_share"}));
  ModuleProfile profile;
  if (module.has("out_of_memory")) {
    ISOCOST_ASSIGN(const JsonObject load, module.object("out_of_memory"));
    ISOCOST_ASSIGN(profile.out_of_memory, parse_load(load));
  }
  ISOCOST_ASSIGN(profile.points, parse_points(module));
  const ModuleLoad& full = profile.out_of_memory;
  for (const ProfilePoint& point : profile.points) {
    const ModuleLoad& load = point.load;
    if (full.units == 0 || load.units < full.units || load.units_squared < full.units_squared) {
      continue;
    }
    return module.wrong("out_of_memory", "must be larger than every measured point");
  }
  if (profile.points.empty()) {
    return module.wrong("points",
                        profile.out_of_memory == ModuleLoad{}
                            ? "is empty; state weights of 0 for a module without measurements"
                            : "is empty: the smallest load ran out of memory; "
                              "profile smaller loads");
  }
  profile.coefficients = fit_coefficients(profile.points);
  if (module.has("forward_share")) {
    ISOCOST_ASSIGN(profile.forward_share, module.amount("forward_share"));
    if (*profile.forward_share > 1) return module.wrong("forward_share", "must be at most 1");
  }
  if (!module.has("cuts")) return profile;
  ISOCOST_ASSIGN(const std::vector<JsonObject> cuts, module.objects("cuts", kMostCuts));
  for (const JsonObject& cut : cuts) {
    ISOCOST_ASSIGN(profile.cuts.emplace_back(), parse_cut(cut));
  }
  return profile;
}

Result<ModuleProfile> parse_stated(const JsonObject& module) {
  ISOCOST_TRY(module.only_keys(
      {"per_microbatch", "per_sequence", "per_unit", "per_unit_squared", "architecture"}));
  ModuleProfile profile;
  for (const Term& term : kTerms) {
    double& weight = profile.coefficients.*term.field;
    ISOCOST_ASSIGN(weight, module.amount(term.name));
    if (weight != 0 && (weight < kLeastWeight || weight > kMostModuleSeconds)) {
      return module.wrong(term.name, "must be 0, or between 1e-18 and 86400 seconds");
    }
  }
  return profile;
}

Result<ModuleProfile> parse_module(const JsonObject& module) {
  ISOCOST_ASSIGN(ModuleProfile profile,
                 module.has("points") ? parse_measured(module) : parse_stated(module));
  if (module.has("architecture")) {
    ISOCOST_ASSIGN(const JsonObject architecture, module.object("architecture"));
    ISOCOST_ASSIGN(profile.architecture, parse_architecture(architecture));
  }
  ISOCOST_TRY(check_cuts(profile, module));
  return profile;
}

json architecture_json(const Architecture& architecture) {
  json object = {{"name", architecture.name}, {"gated", architecture.gated}};
  for (const Dimension& dimension : kDimensions) {
    object[dimension.name] = architecture.*dimension.field;
  }
  if (architecture.experts > 0) object["experts"] = architecture.experts;
  return object;
}

struct JsonValues {
  using Object = json;
  using List = json;
  static json object() { return json::object(); }
  static json list() { return json::array(); }
  static void append(json& list, json value) { list.push_back(std::move(value)); }
};

json module_json(const ModuleProfile& module) {
  json object = json::object();
  if (module.architecture) object["architecture"] = architecture_json(*module.architecture);
  if (module.points.empty()) {
    for (const Term& term : kTerms) object[term.name] = module.coefficients.*term.field;
    return object;
  }
  MeasuredModule<JsonValues>::add(module.points, module.cuts, module.out_of_memory, object);
  if (module.forward_share) object["forward_share"] = *module.forward_share;
  return object;
}

Result<CostProfile> read(const JsonObject& document) {
  ISOCOST_TRY(document.check_version(kProfileVersion));
  ISOCOST_ASSIGN(const std::string unit, document.text("unit"));
  if (unit != "seconds") return document.wrong("unit", "must be \"seconds\"");
  ISOCOST_TRY(document.only_keys(
      {"version", "unit", "source", "hardware", "dtype", "versions", "modules"}));
  CostProfile profile;
  for (auto& [name, text] : {std::pair{"source", &profile.source},
                             {"hardware", &profile.hardware},
                             {"dtype", &profile.dtype}}) {
    ISOCOST_ASSIGN(*text, document.optional_text(name));
    // These texts are printed, so control characters must not reach the terminal.
    for (char& c : *text) c = static_cast<unsigned char>(c) < ' ' || c == 127 ? '?' : c;
  }
  if (document.has("versions")) {
    ISOCOST_ASSIGN(profile.versions, document.texts("versions"));
  }
  ISOCOST_ASSIGN(const JsonObject modules, document.object("modules"));
  for (std::size_t i = 0; i < kModules; ++i) {
    ISOCOST_ASSIGN(const JsonObject module,
                   modules.object(module_name(static_cast<CostModule>(i))));
    ISOCOST_ASSIGN(profile.modules.at(i), parse_module(module));
  }
  ISOCOST_TRY(modules.only_keys({module_name(CostModule::kVision), module_name(CostModule::kAudio),
                                 module_name(CostModule::kLlm)}));
  return profile;
}

}  // namespace

Result<CostProfile> CostProfile::parse(std::string_view text) {
  ISOCOST_ASSIGN(const JsonObject document, JsonObject::parse(text, kFormat));
  return read(document);
}

Result<CostProfile> CostProfile::load(const std::filesystem::path& file) {
  ISOCOST_ASSIGN(const JsonObject document, JsonObject::load(file, kFormat));
  Result<CostProfile> profile = read(document);
  if (!profile) return error_of_file(std::move(profile).error(), file);
  profile->source = file.string();
  return profile;
}

std::string CostProfile::to_json() const {
  json modules_json;
  for (std::size_t i = 0; i < kModules; ++i) {
    modules_json[std::string(module_name(static_cast<CostModule>(i)))] = module_json(modules.at(i));
  }
  json document = {{"version", kProfileVersion},
                   {"unit", "seconds"},
                   {"source", source},
                   {"modules", std::move(modules_json)}};
  if (!hardware.empty()) document["hardware"] = hardware;
  if (!dtype.empty()) document["dtype"] = dtype;
  for (const auto& [name, version] : versions) document["versions"][name] = version;
  // A path that is not UTF-8 must not make dump() throw.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::uint64_t CostProfile::fingerprint() const {
  CostProfile bare;
  bare.modules = modules;
  Fingerprint hash;
  hash.add(bare.to_json());
  // Factors that were learned before launches were a floor belong to another form.
  for (const ModuleProfile& module : modules) {
    const double launches = ModulePredictor(module).launches();
    if (launches > 0) hash.add(std::to_string(launches));
  }
  return hash.value();
}

}  // namespace isocost
