// A data profile as JSON; docs/data_profile.md holds the format.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/read_file.h"
#include "base/statistics.h"
#include "loader/report/data_profile.h"

namespace isocost {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kVersion = 3;
constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;
constexpr std::int64_t kMaxSquares = std::int64_t{1} << 62;

// A column of the table of loads.
struct Column {
  std::string name;
  std::int64_t most;
  std::function<std::int64_t&(Load&)> of;
};

const std::vector<Column>& columns() {
  static const std::vector<Column> the_columns = [] {
    std::vector<Column> out;
    for (std::size_t m = 0; m < kModules; ++m) {
      const std::string module(module_name(static_cast<CostModule>(m)));
      const auto field = [m](std::int64_t ModuleLoad::* member) {
        return [m, member](Load& load) -> std::int64_t& { return load.modules.at(m).*member; };
      };
      out.push_back({module + "_sequences", kMaxCount, field(&ModuleLoad::sequences)});
      out.push_back({module + "_units", kMaxCount, field(&ModuleLoad::units)});
      out.push_back({module + "_units_squared", kMaxSquares, field(&ModuleLoad::units_squared)});
    }
    out.push_back(
        {"label_tokens", kMaxCount, [](Load& load) -> std::int64_t& { return load.label_tokens; }});
    out.push_back(
        {"tensor_bytes", kMaxCount, [](Load& load) -> std::int64_t& { return load.tensor_bytes; }});
    return out;
  }();
  return the_columns;
}

ordered_json to_json(const Distribution& distribution) {
  return {{"mean", distribution.mean},   {"deviation", distribution.deviation},
          {"least", distribution.least}, {"p50", distribution.p50},
          {"p90", distribution.p90},     {"p99", distribution.p99},
          {"most", distribution.most}};
}

ordered_json to_json(const CostSkew::Policy& policy) {
  ordered_json modules;
  for (std::size_t m = 0; m < kModules; ++m) {
    if (policy.module_max_over_mean.at(m) == 0) continue;
    modules[std::string(module_name(static_cast<CostModule>(m)))] =
        policy.module_max_over_mean.at(m);
  }
  return {{"microbatch_max_over_mean", policy.microbatch_max_over_mean},
          {"microbatch_max_over_mean_deviation", policy.microbatch_max_over_mean_deviation},
          {"module_max_over_mean", modules},
          {"rank_max_over_mean", policy.rank_max_over_mean},
          {"rank_max_over_mean_deviation", policy.rank_max_over_mean_deviation},
          {"step_s", policy.step_s},
          {"step_s_deviation", policy.step_s_deviation},
          {"saved_share", policy.saved_share},
          {"saved_share_deviation", policy.saved_share_deviation}};
}

ordered_json to_json(const std::optional<GpuHours>& hours) {
  if (!hours) return nullptr;
  ordered_json out = {{"of", hours->of_run ? "run" : "epoch"}};
  for (std::size_t p = 0; p < kBalancePolicyNames.size(); ++p) {
    out[std::string(kBalancePolicyNames.at(p))] = hours->by_policy.at(p);
  }
  out["saved"] = hours->saved(BalancePolicy::kCost);
  return out;
}

ordered_json to_json(const std::optional<double>& number) {
  return number ? ordered_json(*number) : ordered_json(nullptr);
}

ordered_json to_json(const ExpensiveSample& expensive) {
  return {{"shard", expensive.shard},          {"key", expensive.key},
          {"parts", expensive.parts},          {"encoder_s", expensive.sample.encoder_s()},
          {"llm_s", expensive.sample.llm_s()}, {"total_s", expensive.sample.total_s()}};
}

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

// Returns the means of each source, and its shares of a pass over all samples.
ordered_json sources_json(const DataProfile& profile) {
  double all_tokens = 0;
  double all_labels = 0;
  double all_seconds = 0;
  for (const ProfiledSource& source : profile.sources) {
    all_tokens += source.of_all(static_cast<double>(source.tokens));
    all_labels += source.of_all(static_cast<double>(source.label_tokens));
    all_seconds += source.of_all(source.seconds);
  }
  ordered_json sources = ordered_json::array();
  for (const ProfiledSource& source : profile.sources) {
    const auto add = [&source](ordered_json& to, const std::string& name, double sum, double all) {
      to[name + "_mean"] =
          source.profiled > 0 ? ordered_json(sum / static_cast<double>(source.profiled)) : nullptr;
      to[name + "_share"] = all > 0 ? source.of_all(sum) / all : 0;
    };
    ordered_json row = {
        {"name", source.name}, {"samples", source.size}, {"profiled", source.profiled}};
    add(row, "llm_tokens", static_cast<double>(source.tokens), all_tokens);
    add(row, "label_tokens", static_cast<double>(source.label_tokens), all_labels);
    add(row, "total_s", source.seconds, all_seconds);
    sources.push_back(std::move(row));
  }
  return sources;
}

ordered_json summary(const DataProfile& profile) {
  ordered_json out;
  out["version"] = kVersion;
  out["kind"] = "data profile";
  out["directory"] = profile.directory;
  out["fingerprint"] = hexadecimal(profile.fingerprint);
  out["samples"] = profile.dataset_size;
  out["bad"] = profile.bad;
  out["profiled"] = profile.samples.size();
  out["refused"] = profile.refused;
  out["model_profile"] = profile.model_profile_source;
  for (std::size_t m = 0; m < profile.modalities.size(); ++m) {
    const ModalityCount& count = profile.modalities.at(m);
    out["modalities"][std::string(modality_name(static_cast<Modality>(m)))] = {
        {"samples", count.samples}, {"parts", count.parts}, {"encoded_bytes", count.encoded_bytes}};
  }
  for (const SampleQuantity& quantity : sample_quantities()) {
    out["distributions"][std::string(quantity.name)] =
        to_json(distribution_of(values_of(profile, quantity)));
  }
  if (!profile.sources.empty()) out["sources"] = sources_json(profile);
  out["correlation"] = to_json(profile.correlation);
  out["rank_correlation"] = to_json(profile.rank_correlation);
  out["most_expensive_percent_share"] = profile.most_expensive_percent_share;
  out["most_expensive"] = ordered_json::array();
  for (const ExpensiveSample& expensive : profile.most_expensive)
    out["most_expensive"].push_back(to_json(expensive));
  out["skew"] = {{"global_batch_size", profile.options.global_batch_size},
                 {"ranks", profile.options.ranks},
                 {"microbatches", profile.options.microbatches},
                 {"batches", profile.options.batches}};
  for (std::size_t p = 0; p < kBalancePolicyNames.size(); ++p) {
    out["skew"][std::string(kBalancePolicyNames.at(p))] = to_json(profile.skew.policies.at(p));
  }
  out["gpu_hours"] = to_json(profile.gpu_hours());
  out["savings"] = ordered_json::parse(savings_json(profile.savings()));
  const auto needs = profile.loader_needs();
  out["loader"] = needs ? ordered_json::parse(needs_json(*needs)) : ordered_json(nullptr);
  return out;
}

Error corrupt(const std::string& field, const std::string& what) {
  return {ErrorCode::kCorrupt, "data profile: '" + field + "' " + what};
}

Status check_head(const json& document) {
  if (!document.is_object()) return Error(ErrorCode::kCorrupt, "data profile: not a JSON object");
  const auto kind = document.find("kind");
  if (kind == document.end() || *kind != "data profile") {
    return corrupt("kind",
                   "must be \"data profile\": isocost data profile --json writes such files");
  }
  const auto version = document.find("version");
  if (version == document.end()) return corrupt("version", "is missing");
  if (!version->is_number_integer()) return corrupt("version", "must be an integer");
  if (*version == kVersion) return {};
  return Error(ErrorCode::kUnsupported,
               "data profile: 'version' is " + version->dump() + "; this program reads version " +
                   std::to_string(kVersion) + ": run isocost data profile again");
}

Result<const json*> loads_rows(const json& document) {
  const auto loads = document.find("loads");
  if (loads == document.end() || !loads->is_object()) return corrupt("loads", "is missing");
  const auto names = loads->find("columns");
  const auto rows = loads->find("rows");
  if (names == loads->end() || !names->is_array()) return corrupt("loads.columns", "is missing");
  if (rows == loads->end() || !rows->is_array()) return corrupt("loads.rows", "is missing");
  json wanted = json::array();
  for (const Column& column : columns()) wanted.push_back(column.name);
  if (*names != wanted) return corrupt("loads.columns", "must be " + wanted.dump());
  if (rows->empty()) return corrupt("loads.rows", "is empty");
  return &*rows;
}

Result<Load> parse_row(const json& row, std::size_t number) {
  const std::string where = "loads.rows[" + std::to_string(number) + "]";
  if (!row.is_array() || row.size() != columns().size()) {
    return corrupt(where, "must be " + std::to_string(columns().size()) + " numbers");
  }
  Load load;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Column& column = columns()[i];
    const json& value = row[i];
    if (!value.is_number_unsigned() ||
        value.get<std::uint64_t>() > static_cast<std::uint64_t>(column.most)) {
      return corrupt(where,
                     column.name + " must be a whole number up to " + std::to_string(column.most));
    }
    column.of(load) = value.get<std::int64_t>();
  }
  return load;
}

}  // namespace

std::string DataProfile::to_json() const {
  // Names that are not UTF-8 must not make this throw.
  std::string text = summary(*this).dump(2, ' ', false, json::error_handler_t::replace);
  text.resize(text.size() - 2);  // "\n}": the loads follow, a line each
  json names = json::array();
  for (const Column& column : columns()) names.push_back(column.name);
  text += ",\n  \"loads\": {\n    \"columns\": " + names.dump() + ",\n    \"rows\": [";
  for (std::size_t i = 0; i < samples.size(); ++i) {
    Load load = samples[i].load;
    text += i == 0 ? "\n      [" : ",\n      [";
    for (const Column& column : columns()) {
      if (&column != &columns().front()) text += ',';
      text += std::to_string(column.of(load));
    }
    text += ']';
  }
  return text + "\n    ]\n  }\n}\n";
}

Result<std::vector<Load>> parse_profiled_loads(std::string_view text) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::exception& error) {
    return Error(ErrorCode::kCorrupt, std::string("data profile: ") + error.what());
  }
  ISOCOST_TRY(check_head(document));
  ISOCOST_ASSIGN(const json* rows, loads_rows(document));
  std::vector<Load> loads;
  loads.reserve(rows->size());
  for (std::size_t i = 0; i < rows->size(); ++i) {
    ISOCOST_ASSIGN(Load load, parse_row((*rows)[i], i));
    loads.push_back(load);
  }
  return loads;
}

Result<std::vector<Load>> load_profiled_loads(const std::filesystem::path& file) {
  ISOCOST_ASSIGN(const std::string text, read_file("data profile", file, kMaxFileBytes));
  auto loads = parse_profiled_loads(text);
  if (!loads) return std::move(loads).error().with_context(file.string());
  return loads;
}

}  // namespace isocost
