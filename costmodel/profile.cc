// The profile file: JSON, strict. docs/profile.md holds the schema.
#include <cmath>
#include <cstddef>
#include <cstdint>
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
constexpr std::size_t kMostPoints = 1024;
constexpr double kLeastSeconds = 1e-9;
constexpr double kMostSeconds = 86'400;

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

Result<std::int64_t> whole(const json& object, const char* name, const std::string& prefix) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  const auto found = object.find(name);
  if (found == object.end()) return corrupt(prefix + name, "is missing");
  if (!found->is_number_integer()) return corrupt(prefix + name, "must be an integer");
  if (found->is_number_unsigned() && found->get<std::uint64_t>() > std::uint64_t{kMost}) {
    return corrupt(prefix + name, "is absurdly large");
  }
  const auto value = found->get<std::int64_t>();
  if (value < 0) return corrupt(prefix + name, "must not be negative");
  return value;
}

Result<ModuleLoad> parse_load(const json& object, const std::string& prefix) {
  ModuleLoad load;
  ISOCOST_ASSIGN(load.sequences, whole(object, "sequences", prefix));
  ISOCOST_ASSIGN(load.units, whole(object, "units", prefix));
  ISOCOST_ASSIGN(load.units_squared, whole(object, "units_squared", prefix));
  if (load.sequences == 0 || load.units < load.sequences || load.units_squared < load.units) {
    return corrupt(prefix + "units",
                   "contradicts itself: there must be sequences, each of a unit at least, and "
                   "units_squared no less than units");
  }
  return load;
}

Result<ProfilePoint> parse_point(const json& object, const std::string& prefix) {
  if (!object.is_object()) return corrupt(prefix, "must be an object");
  ISOCOST_TRY(only_keys(
      object,
      {"sequences", "units", "units_squared", "forward_s", "backward_s", "spread", "peak_bytes"},
      prefix));
  ProfilePoint point;
  ISOCOST_ASSIGN(point.load, parse_load(object, prefix));
  ISOCOST_ASSIGN(point.forward_s, coefficient(object, "forward_s", prefix));
  ISOCOST_ASSIGN(point.backward_s, coefficient(object, "backward_s", prefix));
  ISOCOST_ASSIGN(point.spread, coefficient(object, "spread", prefix));
  ISOCOST_ASSIGN(point.peak_bytes, whole(object, "peak_bytes", prefix));
  if (!(point.seconds() >= kLeastSeconds && point.seconds() <= kMostSeconds)) {
    return corrupt(prefix + "forward_s", "and backward_s must add up to 1e-9 to 86400 seconds");
  }
  return point;
}

// Measurements are noisy and kernels change at sizes, but not by this.
Status check_points(const std::vector<ProfilePoint>& points, const std::string& prefix) {
  constexpr double kTwice = 2;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = 0; j < points.size(); ++j) {
      const ModuleLoad& less = points[i].load;
      const ModuleLoad& more = points[j].load;
      if (i == j || less.sequences > more.sequences || less.units > more.units ||
          less.units_squared > more.units_squared) {
        continue;
      }
      if (points[i].seconds() <= kTwice * points[j].seconds()) continue;
      const std::string which = prefix + std::to_string(i);
      return corrupt(
          which, "takes more than twice the seconds of point " + std::to_string(j) +
                     (less == more ? ", which has the same load" : ", which has no less to do") +
                     "; measure again");
    }
  }
  return {};
}

Result<ModuleProfile> parse_measured(const json& module, const std::string& prefix) {
  ISOCOST_TRY(only_keys(module, {"points", "out_of_memory"}, prefix));
  const json& list = module.at("points");
  if (!list.is_array()) return corrupt(prefix + "points", "must be an array");
  ModuleProfile profile;
  if (const auto found = module.find("out_of_memory"); found != module.end()) {
    if (!found->is_object()) return corrupt(prefix + "out_of_memory", "must be an object");
    ISOCOST_ASSIGN(profile.out_of_memory, parse_load(*found, prefix + "out_of_memory."));
  }
  if (list.empty()) {
    return corrupt(prefix + "points", profile.out_of_memory == ModuleLoad{}
                                          ? "is empty; leave such a module's weights at 0 instead"
                                          : "is empty: the smallest load ran out of memory; "
                                            "profile smaller ones");
  }
  if (list.size() > kMostPoints) return corrupt(prefix + "points", "has more than 1024 points");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = prefix + "points." + std::to_string(i) + ".";
    ISOCOST_ASSIGN(profile.points.emplace_back(), parse_point(list[i], at));
  }
  ISOCOST_TRY(check_points(profile.points, prefix + "points."));
  profile.coefficients = fit_coefficients(profile.points);
  return profile;
}

Result<ModuleProfile> parse_module(const json& modules, Module module) {
  const std::string name(module_name(module));
  const std::string prefix = "modules." + name + ".";
  const auto found = modules.find(name);
  if (found == modules.end()) return corrupt("modules." + name, "is missing");
  if (!found->is_object()) return corrupt("modules." + name, "must be an object");
  if (found->contains("points")) return parse_measured(*found, prefix);
  ModuleProfile profile;
  std::set<std::string> known;
  for (const Term& term : kTerms) {
    known.insert(term.name);
    ISOCOST_ASSIGN(profile.coefficients.*term.field, coefficient(*found, term.name, prefix));
  }
  ISOCOST_TRY(only_keys(*found, known, prefix));
  return profile;
}

Result<std::string> optional_text(const json& document, const char* name) {
  const auto found = document.find(name);
  if (found == document.end()) return std::string();
  if (!found->is_string()) return corrupt(name, "must be a string");
  return found->get<std::string>();
}

json load_json(const ModuleLoad& load) {
  return {
      {"sequences", load.sequences}, {"units", load.units}, {"units_squared", load.units_squared}};
}

json module_json(const ModuleProfile& module) {
  json object = json::object();
  if (module.points.empty()) {
    for (const Term& term : kTerms) object[term.name] = module.coefficients.*term.field;
    return object;
  }
  for (const ProfilePoint& point : module.points) {
    json entry = load_json(point.load);
    entry["forward_s"] = point.forward_s;
    entry["backward_s"] = point.backward_s;
    entry["spread"] = point.spread;
    entry["peak_bytes"] = point.peak_bytes;
    object["points"].push_back(std::move(entry));
  }
  if (!(module.out_of_memory == ModuleLoad{})) {
    object["out_of_memory"] = load_json(module.out_of_memory);
  }
  return object;
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
  ISOCOST_TRY(only_keys(
      document, {"version", "unit", "source", "hardware", "dtype", "versions", "modules"}, ""));
  CostProfile profile;
  ISOCOST_ASSIGN(profile.source, optional_text(document, "source"));
  ISOCOST_ASSIGN(profile.hardware, optional_text(document, "hardware"));
  ISOCOST_ASSIGN(profile.dtype, optional_text(document, "dtype"));
  if (const auto versions = document.find("versions"); versions != document.end()) {
    if (!versions->is_object()) return corrupt("versions", "must be an object");
    for (const auto& [name, version] : versions->items()) {
      if (!version.is_string()) return corrupt("versions." + shown(name), "must be a string");
      profile.versions.emplace_back(name, version.get<std::string>());
    }
  }
  const auto modules = document.find("modules");
  if (modules == document.end()) return corrupt("modules", "is missing");
  if (!modules->is_object()) return corrupt("modules", "must be an object");
  std::set<std::string> known;
  for (std::size_t i = 0; i < kModules; ++i) {
    const auto module = static_cast<Module>(i);
    known.emplace(module_name(module));
    ISOCOST_ASSIGN(profile.modules.at(i), parse_module(*modules, module));
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
    modules_json[std::string(module_name(static_cast<Module>(i)))] = module_json(modules.at(i));
  }
  json document = {{"version", kVersion},
                   {"unit", "seconds"},
                   {"source", source},
                   {"modules", std::move(modules_json)}};
  if (!hardware.empty()) document["hardware"] = hardware;
  if (!dtype.empty()) document["dtype"] = dtype;
  for (const auto& [name, version] : versions) document["versions"][name] = version;
  // A path that is not UTF-8 must not make this throw.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace isocost
