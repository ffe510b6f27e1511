// The profile file: JSON, strict. docs/cost_model.md holds the schema.
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "costmodel/profile.h"

namespace isocost {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr std::size_t kMaxProfileBytes = std::size_t{1} << 20;
constexpr int kMaxDepth = 8;

struct Term {
  const char* name;
  double ModuleCoefficients::* field;
};
constexpr Term kTerms[] = {{"per_microbatch", &ModuleCoefficients::per_microbatch},
                           {"per_sequence", &ModuleCoefficients::per_sequence},
                           {"per_unit", &ModuleCoefficients::per_unit},
                           {"per_unit_squared", &ModuleCoefficients::per_unit_squared}};

Error corrupt(const std::string& field, const std::string& what) {
  return {ErrorCode::kCorrupt, "profile: '" + field + "' " + what};
}

// Watches the parser: JSON leaves open what a key written twice means, and a number that does not
// fit in a double is reported without its key.
struct Watch {
  std::vector<std::set<std::string>> keys;
  std::string last_key;
  std::string twice;
  bool too_deep = false;

  bool operator()(int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end && !keys.empty()) keys.pop_back();
    if (event == Event::key) {
      last_key = value.get_ref<const std::string&>();
      if (!keys.empty() && !keys.back().insert(last_key).second) twice = last_key;
    }
    if (depth > kMaxDepth) too_deep = true;
    return true;
  }
};

Result<json> parse_strictly(std::string_view text) {
  if (text.size() > kMaxProfileBytes) {
    return Error(ErrorCode::kCorrupt, "profile: larger than 1 MiB: this is no profile");
  }
  Watch watch;
  json document;
  try {
    document = json::parse(text, [&watch](int depth, json::parse_event_t event, json& value) {
      return watch(depth, event, value);
    });
  } catch (const json::exception& error) {
    const std::string after = watch.last_key.empty() ? "" : "after '" + watch.last_key + "': ";
    return Error(ErrorCode::kCorrupt, "profile: " + after + error.what());
  }
  if (watch.too_deep) return Error(ErrorCode::kCorrupt, "profile: nested too deep");
  if (!watch.twice.empty()) return corrupt(watch.twice, "is given twice");
  if (!document.is_object()) return Error(ErrorCode::kCorrupt, "profile: not a JSON object");
  return document;
}

// Printable and short: keys come from outside.
std::string shown(const std::string& key) {
  std::string text;
  for (const char c : key.substr(0, 40)) text += c >= ' ' && c < 127 ? c : '?';
  return text;
}

Status only_keys(const json& object, const std::set<std::string>& known,
                 const std::string& prefix) {
  for (const auto& [key, value] : object.items()) {
    if (!known.contains(key)) return corrupt(prefix + shown(key), "is not a known key");
  }
  return {};
}

Result<double> coefficient(const json& module, const char* name, const std::string& prefix) {
  const std::string field = prefix + name;
  const auto found = module.find(name);
  if (found == module.end()) return corrupt(field, "is missing");
  if (!found->is_number()) return corrupt(field, "must be a number of seconds");
  const double value = found->get<double>();
  if (!std::isfinite(value)) return corrupt(field, "must be finite");
  if (value < 0) return corrupt(field, "must not be negative");
  return value;
}

Result<ModuleCoefficients> parse_module(const json& modules, Module module) {
  const std::string name(module_name(module));
  const std::string prefix = "modules." + name + ".";
  const auto found = modules.find(name);
  if (found == modules.end()) return corrupt("modules." + name, "is missing");
  if (!found->is_object()) return corrupt("modules." + name, "must be an object");
  ModuleCoefficients coefficients;
  std::set<std::string> known;
  for (const Term& term : kTerms) {
    known.insert(term.name);
    ISOCOST_ASSIGN(coefficients.*term.field, coefficient(*found, term.name, prefix));
  }
  ISOCOST_TRY(only_keys(*found, known, prefix));
  return coefficients;
}

Status check_version(const json& document) {
  const auto version = document.find("version");
  if (version == document.end()) return corrupt("version", "is missing");
  if (!version->is_number_integer()) return corrupt("version", "must be an integer");
  if (*version != kVersion) {
    return Error(ErrorCode::kUnsupported,
                 "profile: 'version' is " + version->dump() + "; this program reads version 1");
  }
  const auto unit = document.find("unit");
  if (unit == document.end()) return corrupt("unit", "is missing");
  if (*unit != "seconds") return corrupt("unit", "must be \"seconds\"");
  return {};
}

}  // namespace

Result<CostProfile> CostProfile::parse(std::string_view text) {
  ISOCOST_ASSIGN(const json document, parse_strictly(text));
  ISOCOST_TRY(check_version(document));
  ISOCOST_TRY(only_keys(document, {"version", "unit", "source", "modules"}, ""));
  CostProfile profile;
  if (const auto source = document.find("source"); source != document.end()) {
    if (!source->is_string()) return corrupt("source", "must be a string");
    profile.source = source->get<std::string>();
  }
  const auto modules = document.find("modules");
  if (modules == document.end()) return corrupt("modules", "is missing");
  if (!modules->is_object()) return corrupt("modules", "must be an object");
  std::set<std::string> known;
  for (std::size_t i = 0; i < kModules; ++i) {
    const auto module = static_cast<Module>(i);
    known.emplace(module_name(module));
    ISOCOST_ASSIGN(profile.modules.at(i).coefficients, parse_module(*modules, module));
  }
  ISOCOST_TRY(only_keys(*modules, known, "modules."));
  return profile;
}

Result<CostProfile> CostProfile::load(const std::filesystem::path& file) {
  std::error_code failure;
  if (!std::filesystem::exists(file, failure)) {
    return Error(ErrorCode::kNotFound, "profile " + file.string() + " does not exist");
  }
  if (!std::filesystem::is_regular_file(file, failure)) {
    return Error(ErrorCode::kIo, "profile " + file.string() + " is not a regular file");
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMaxProfileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.is_open() || stream.bad()) {
    return Error(ErrorCode::kIo, "profile " + file.string() + " cannot be read");
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  Result<CostProfile> profile = parse(text);
  if (!profile) return std::move(profile).error().with_context(file.string());
  profile->source = file.string();
  return profile;
}

std::string CostProfile::to_json() const {
  json modules_json;
  for (std::size_t i = 0; i < kModules; ++i) {
    json terms;
    for (const Term& term : kTerms) terms[term.name] = modules.at(i).coefficients.*term.field;
    modules_json[std::string(module_name(static_cast<Module>(i)))] = std::move(terms);
  }
  const json document = {{"version", kVersion},
                         {"unit", "seconds"},
                         {"source", source},
                         {"modules", std::move(modules_json)}};
  // A path that is not UTF-8 must not make this throw.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace isocost
