#include "loader/plan/mixture/saved_mixture.h"

#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_object.h"

namespace isocost {
namespace {

constexpr std::int64_t kSavedVersion = 1;
constexpr std::int64_t kMostCount = std::int64_t{1} << 53;
constexpr JsonFormat kSavedFormat{.name = "mixture of the saved state",
                                  .max_bytes = kMostSavedMixtureBytes,
                                  .max_depth = 5,
                                  .remedy = "resume with the version of Isocost that saved it"};

std::string hexadecimal(std::uint64_t value) {
  std::string digits(16, '0');
  char raw[16];
  const char* const end = std::to_chars(raw, raw + sizeof(raw), value, 16).ptr;
  const auto count = static_cast<std::size_t>(end - raw);
  return digits.replace(digits.size() - count, count, raw, count);
}

Result<std::uint64_t> hexadecimal(const JsonObject& object, std::string_view key) {
  ISOCOST_ASSIGN(const std::string text, object.text(key));
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, 16);
  if (text.size() == 16 && read.ec == std::errc() && read.ptr == end) return value;
  return object.wrong(key, "must be 16 hexadecimal digits");
}

nlohmann::ordered_json source_json(const MixtureSource& source) {
  nlohmann::ordered_json json;
  json["name"] = source.name;
  json["size"] = source.size;
  json["fingerprint"] = hexadecimal(source.fingerprint);
  if (source.epochs > 0) json["epochs"] = source.epochs;
  if (!source.schedule.points.empty()) {
    nlohmann::ordered_json steps;
    nlohmann::ordered_json proportions;
    for (const Breakpoint& point : source.schedule.points) {
      steps.push_back(point.step);
      proportions.push_back(point.proportion);
    }
    json["steps"] = std::move(steps);
    json["proportions"] = std::move(proportions);
  }
  if (source.schedule.ramp) json["ramp"] = true;
  if (source.schedule.end != ProportionSchedule::kNoEnd) json["end"] = source.schedule.end;
  return json;
}

// Returns a count; 0 if there is no such key.
Result<std::uint64_t> optional_count(const JsonObject& object, std::string_view key) {
  if (!object.has(key)) return std::uint64_t{0};
  ISOCOST_ASSIGN(const std::int64_t value, object.whole(key, 0, kMostCount));
  return static_cast<std::uint64_t>(value);
}

Result<bool> optional_flag(const JsonObject& object, std::string_view key) {
  return object.has(key) ? object.flag(key) : Result<bool>(false);
}

Result<ProportionSchedule> schedule_from(const JsonObject& source) {
  ProportionSchedule schedule;
  ISOCOST_ASSIGN(schedule.ramp, optional_flag(source, "ramp"));
  if (source.has("end")) {
    ISOCOST_ASSIGN(const std::int64_t end, source.whole("end", 0, kLastStep));
    schedule.end = static_cast<std::uint64_t>(end);
  }
  if (!source.has("steps") && !source.has("proportions")) return schedule;
  ISOCOST_ASSIGN(const auto steps, source.wholes("steps", kMostBreakpoints, 0, kLastStep));
  ISOCOST_ASSIGN(const auto proportions, source.amounts("proportions", kMostBreakpoints));
  if (steps.size() != proportions.size()) {
    return source.wrong("proportions", "must have a value for each of the steps");
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    schedule.points.push_back({static_cast<std::uint64_t>(steps[i]), proportions[i]});
  }
  return schedule;
}

Result<MixtureSource> source_from(const JsonObject& object) {
  ISOCOST_TRY(object.only_keys(
      {"name", "size", "fingerprint", "epochs", "steps", "proportions", "ramp", "end"}));
  MixtureSource source;
  ISOCOST_ASSIGN(source.name, object.text("name"));
  ISOCOST_ASSIGN(const std::int64_t size, object.whole("size", 0, kMostCount));
  source.size = static_cast<std::uint64_t>(size);
  ISOCOST_ASSIGN(source.fingerprint, hexadecimal(object, "fingerprint"));
  ISOCOST_ASSIGN(source.epochs, optional_count(object, "epochs"));
  ISOCOST_ASSIGN(source.schedule, schedule_from(object));
  return source;
}

}  // namespace

Result<std::string> mixture_json(const MixtureOptions& options) {
  nlohmann::ordered_json json;
  json["version"] = kSavedVersion;
  if (!options.skipped.empty()) json["skip_steps"] = options.skipped.texts();
  if (!options.sources.empty()) {
    json["seed"] = hexadecimal(options.seed);
    json["shuffled"] = options.shuffled;
    if (options.shuffle_shards > 0) json["shuffle_shards"] = options.shuffle_shards;
    json["global_batch_size"] = options.global_batch_size;
    if (options.steps > 0) json["steps"] = options.steps;
    nlohmann::ordered_json sources;
    for (const MixtureSource& source : options.sources) sources.push_back(source_json(source));
    json["sources"] = std::move(sources);
  }
  std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (text.size() <= kMostSavedMixtureBytes) return text;
  return Error(ErrorCode::kResourceExhausted,
               "the mixture takes " + std::to_string(text.size()) +
                   " bytes of a saved state, and at most " +
                   std::to_string(kMostSavedMixtureBytes) +
                   " are allowed: give fewer sources, breakpoints or skip_steps");
}

Result<MixtureOptions> mixture_from_json(std::string_view json) {
  ISOCOST_ASSIGN(const JsonObject object, JsonObject::parse(json, kSavedFormat));
  ISOCOST_TRY(object.check_version(kSavedVersion));
  ISOCOST_TRY(object.only_keys({"version", "skip_steps", "seed", "shuffled", "shuffle_shards",
                                "global_batch_size", "steps", "sources"}));
  MixtureOptions options;
  if (object.has("skip_steps")) {
    ISOCOST_ASSIGN(const auto texts, object.text_list("skip_steps", SkippedSteps::kMost));
    auto skipped = SkippedSteps::parse(texts);
    if (!skipped) return object.wrong("skip_steps", "is damaged: " + skipped.error().message());
    options.skipped = *std::move(skipped);
  }
  if (!object.has("sources")) return options;
  ISOCOST_ASSIGN(options.seed, hexadecimal(object, "seed"));
  ISOCOST_ASSIGN(options.shuffled, object.flag("shuffled"));
  ISOCOST_ASSIGN(options.shuffle_shards, optional_count(object, "shuffle_shards"));
  ISOCOST_ASSIGN(const std::int64_t batch, object.whole("global_batch_size", 1, kMostCount));
  options.global_batch_size = static_cast<std::uint64_t>(batch);
  ISOCOST_ASSIGN(options.steps, optional_count(object, "steps"));
  ISOCOST_ASSIGN(const auto sources, object.objects("sources", kMostSources));
  for (const JsonObject& source : sources) {
    ISOCOST_ASSIGN(MixtureSource read, source_from(source));
    options.sources.push_back(std::move(read));
  }
  return options;
}

}  // namespace isocost
