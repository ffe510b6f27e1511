#include "bench/quality/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace isocost {
namespace {

using nlohmann::json;

// Another compiler may round sums differently. A worse decision differs by more than this.
constexpr double kRounding = 1e-9;
constexpr const char* kReason = "reason";

struct Comparison {
  std::vector<std::string> worse;  ///< A line for each measure that is worse.
  bool better = false;             ///< Whether any measure is better.
};

Comparison compare(const json& now, const json& before) {
  Comparison found;
  for (const char* measure : kQualityMeasures) {
    if (!now.contains(measure)) continue;
    const double value = now[measure];
    const double recorded = before.value(measure, 0.0);
    // Gaps and idle fractions are fractions of a makespan near one.
    const double rounding = kRounding * std::max(recorded, 1.0);
    if (value > recorded + rounding) {
      found.worse.push_back(
          fmt::format("{} {:.9g} is worse than the recorded {:.9g}", measure, value, recorded));
    }
    found.better = found.better || value < recorded - rounding;
  }
  return found;
}

// The recorded row, or null.
json row_of(const json& recorded, const std::string& name, const std::string& policy) {
  return recorded.contains(name) ? recorded[name].value(policy, json()) : json();
}

std::vector<std::string> row_differences(const json& now, const json& before) {
  if (!before.is_object()) return {"not in the record; add it with --record"};
  const Comparison found = compare(now, before);
  if (!found.worse.empty()) return found.worse;
  if (now["plans"] == before.value("plans", std::uint64_t{0})) return {};
  return {std::string(found.better ? "better than recorded"
                                   : "the plans differ from the record, with equal scores") +
          "; record the new plans with --record"};
}

}  // namespace

std::vector<std::string> differences(const json& report, const json& recorded) {
  std::vector<std::string> lines;
  for (const auto& [name, policies] : report.items()) {
    for (const auto& [policy, now] : policies.items()) {
      for (const std::string& line : row_differences(now, row_of(recorded, name, policy))) {
        lines.push_back(fmt::format("{}, {}: {}", name, policy, line));
      }
    }
  }
  for (const auto& [name, policies] : recorded.items()) {
    for (const auto& [policy, row] : policies.items()) {
      if (report.contains(name) && report[name].contains(policy)) continue;
      lines.push_back(fmt::format("{}, {}: recorded, but no longer run; remove it with --record",
                                  name, policy));
    }
  }
  return lines;
}

Result<json> make_record(json report, const json& recorded, const std::string& reason) {
  std::string unexplained;
  for (auto& [name, policies] : report.items()) {
    for (auto& [policy, now] : policies.items()) {
      const json before = row_of(recorded, name, policy);
      if (!before.is_object()) continue;
      const Comparison found = compare(now, before);
      if (!found.worse.empty() && !reason.empty()) {
        now[kReason] = reason;
      } else if (!found.better && before.contains(kReason)) {
        now[kReason] = before[kReason];
      }
      for (const std::string& line : found.worse) {
        unexplained += fmt::format("{}, {}: {}\n", name, policy, line);
      }
    }
  }
  if (!unexplained.empty() && reason.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 unexplained + "not recorded: say why with --reason TEXT, which the record keeps");
  }
  return report;
}

}  // namespace isocost
