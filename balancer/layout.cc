#include "balancer/layout.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

namespace isocost {
namespace {

using nlohmann::json;

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMaxFileBytes = 1 << 16;
constexpr std::size_t kLargestDegree = 1'000'000;
constexpr int kMaxDepth = 4;

Error corrupt(const std::string& field, const std::string& what) {
  return {ErrorCode::kCorrupt, "layout: '" + field + "' " + what};
}

Error invalid(const std::string& field, std::size_t value, const std::string& allowed) {
  return {ErrorCode::kInvalidArgument,
          "layout: '" + field + "' is " + std::to_string(value) + "; " + allowed};
}

// Refuses what nlohmann takes silently: keys given twice, and nesting that no layout has.
struct Watch {
  std::vector<std::set<std::string>> keys;
  std::string fault;

  bool operator()(int depth, json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.empty() &&
        !keys.back().insert(value.get_ref<const std::string&>()).second) {
      fault = "a key is given twice";
    }
    if (depth > kMaxDepth) fault = "nested too deep";
    return true;
  }
};

Result<json> parse_strictly(std::string_view text) {
  if (text.size() > kMaxFileBytes) {
    return Error(ErrorCode::kCorrupt, "layout: larger than 64 KiB: this is no layout");
  }
  Watch watch;
  json document;
  try {
    document = json::parse(text, [&watch](int depth, json::parse_event_t event, json& value) {
      return watch(depth, event, value);
    });
  } catch (const json::exception& error) {
    return Error(ErrorCode::kCorrupt, std::string("layout: ") + error.what());
  }
  if (!watch.fault.empty()) return Error(ErrorCode::kCorrupt, "layout: " + watch.fault);
  if (!document.is_object()) return Error(ErrorCode::kCorrupt, "layout: not a JSON object");
  return document;
}

Status only_keys(const json& object, std::initializer_list<const char*> known,
                 const std::string& prefix) {
  for (const auto& [key, value] : object.items()) {
    const bool is_known =
        std::any_of(known.begin(), known.end(), [&key](const char* name) { return key == name; });
    if (!is_known) {
      std::string shown;
      for (const char c : key.substr(0, 40)) shown += c >= ' ' && c < 127 ? c : '?';
      return corrupt(prefix + shown, "is not a known key");
    }
  }
  return {};
}

Result<std::size_t> degree(const json& object, const char* name, const std::string& prefix) {
  const auto found = object.find(name);
  if (found == object.end()) return corrupt(prefix + name, "is missing");
  if (!found->is_number_integer()) return corrupt(prefix + name, "must be an integer");
  const bool in_range = found->is_number_unsigned() && found->get<std::uint64_t>() >= 1 &&
                        found->get<std::uint64_t>() <= kLargestDegree;
  if (!in_range) return corrupt(prefix + name, "must be between 1 and 1000000");
  return found->get<std::size_t>();
}

Result<ModuleDegrees> degrees(const json& document, const char* name) {
  const auto found = document.find(name);
  if (found == document.end()) return corrupt(name, "is missing");
  if (!found->is_object()) return corrupt(name, "must be an object");
  const std::string prefix = std::string(name) + ".";
  ISOCOST_TRY(only_keys(*found, {"tensor", "pipeline", "data"}, prefix));
  ModuleDegrees out;
  ISOCOST_ASSIGN(out.tensor, degree(*found, "tensor", prefix));
  ISOCOST_ASSIGN(out.pipeline, degree(*found, "pipeline", prefix));
  ISOCOST_ASSIGN(out.data, degree(*found, "data", prefix));
  return out;
}

Result<std::string> word(const json& document, const char* name) {
  const auto found = document.find(name);
  if (found == document.end()) return corrupt(name, "is missing");
  if (!found->is_string()) return corrupt(name, "must be a string");
  return found->get<std::string>();
}

Status check_version(const json& document) {
  const auto version = document.find("version");
  if (version == document.end()) return corrupt("version", "is missing");
  if (!version->is_number_integer()) return corrupt("version", "must be an integer");
  if (*version != kVersion) {
    return Error(ErrorCode::kUnsupported,
                 "layout: 'version' is " + version->dump() + "; this program reads version 1");
  }
  return {};
}

json degrees_json(const ModuleDegrees& degrees) {
  return {{"tensor", degrees.tensor}, {"pipeline", degrees.pipeline}, {"data", degrees.data}};
}

std::string degrees_text(const ModuleDegrees& degrees) {
  return std::to_string(degrees.tensor) + "x" + std::to_string(degrees.pipeline) + "x" +
         std::to_string(degrees.data);
}

Status check_degrees(const ModuleDegrees& degrees, const std::string& module) {
  for (const auto& [name, value] : {std::pair{"tensor", degrees.tensor},
                                    {"pipeline", degrees.pipeline},
                                    {"data", degrees.data}}) {
    if (value < 1 || value > kLargestDegree) {
      return invalid(module + "." + name, value, "it must be between 1 and 1000000");
    }
  }
  return {};
}

}  // namespace

Status Layout::validate() const {
  ISOCOST_TRY(check_degrees(encoder, "encoder"));
  ISOCOST_TRY(check_degrees(llm, "llm"));
  if (microbatches < 1 || microbatches > kLargestDegree) {
    return invalid("microbatches", microbatches, "it must be between 1 and 1000000");
  }
  if (encoder_place == EncoderPlace::kLlmRanks && encoder != llm) {
    return Error(ErrorCode::kInvalidArgument,
                 "layout: the encoder is on the LLM's ranks, so 'encoder' must equal 'llm'");
  }
  if (encoder.data > llm.data * microbatches) {
    return invalid("encoder.data", encoder.data,
                   "there are only " + std::to_string(llm.data * microbatches) +
                       " microbatches (llm.data x microbatches) to work on");
  }
  if (chunks < 1 || (chunks > 1 && schedule != Schedule::kInterleaved1F1B)) {
    return invalid("chunks", chunks,
                   "schedule " + std::string(schedule_name(schedule)) + " runs one a stage");
  }
  if (chunks > 1 && microbatches % llm.pipeline != 0) {
    return invalid("microbatches", microbatches,
                   "interleaved stages need a multiple of llm.pipeline (" +
                       std::to_string(llm.pipeline) + ")");
  }
  return {};
}

Result<Layout> Layout::parse(std::string_view text) {
  ISOCOST_ASSIGN(const json document, parse_strictly(text));
  ISOCOST_TRY(check_version(document));
  ISOCOST_TRY(only_keys(
      document,
      {"version", "encoder_place", "encoder", "llm", "microbatches", "chunks", "schedule"}, ""));
  Layout layout;
  ISOCOST_ASSIGN(const std::string place, word(document, "encoder_place"));
  if (place != "own" && place != "llm") {
    return corrupt("encoder_place", "must be \"own\" or \"llm\"");
  }
  layout.encoder_place = place == "own" ? EncoderPlace::kOwnRanks : EncoderPlace::kLlmRanks;
  ISOCOST_ASSIGN(layout.encoder, degrees(document, "encoder"));
  ISOCOST_ASSIGN(layout.llm, degrees(document, "llm"));
  ISOCOST_ASSIGN(layout.microbatches, degree(document, "microbatches", ""));
  ISOCOST_ASSIGN(layout.chunks, degree(document, "chunks", ""));
  ISOCOST_ASSIGN(const std::string schedule_text, word(document, "schedule"));
  const auto known = schedule_from_name(schedule_text);
  if (!known) return corrupt("schedule", "must be gpipe, 1f1b, interleaved or zb-h1");
  layout.schedule = *known;
  ISOCOST_TRY(layout.validate());
  return layout;
}

Result<Layout> Layout::load(const std::filesystem::path& file) {
  std::error_code failure;
  if (!std::filesystem::exists(file, failure)) {
    return Error(ErrorCode::kNotFound, "layout " + file.string() + " does not exist");
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.is_open() || stream.bad()) {
    return Error(ErrorCode::kIo, "layout " + file.string() + " cannot be read");
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  Result<Layout> layout = parse(text);
  if (!layout) return std::move(layout).error().with_context(file.string());
  return layout;
}

std::string Layout::to_json() const {
  nlohmann::ordered_json document;
  document["version"] = kVersion;
  document["encoder_place"] = encoder_place == EncoderPlace::kOwnRanks ? "own" : "llm";
  document["encoder"] = degrees_json(encoder);
  document["llm"] = degrees_json(llm);
  document["microbatches"] = microbatches;
  document["chunks"] = chunks;
  document["schedule"] = schedule_name(schedule);
  return document.dump(2) + "\n";
}

std::string Layout::to_string() const {
  const bool own = encoder_place == EncoderPlace::kOwnRanks;
  return (own ? "encoder " + degrees_text(encoder) + ", llm " : "both ") + degrees_text(llm) +
         ", " + std::to_string(microbatches) + " microbatches, " +
         std::string(schedule_name(schedule)) +
         (chunks > 1 ? " of " + std::to_string(chunks) + " chunks" : "");
}

}  // namespace isocost
