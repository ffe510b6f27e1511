#include "loader/metrics/snapshot.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace isocost {
namespace {

constexpr int kSummaryVersion = 1;

}  // namespace

std::string bucket_label(std::size_t bucket) {
  if (bucket == 0) return "0";
  return std::to_string(static_cast<std::int64_t>(std::ceil(bucket_start(bucket))));
}

std::string NodeSummary::to_json() const {
  nlohmann::ordered_json errors = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kModules; ++i) {
    const std::string name(module_name(static_cast<CostModule>(i)));
    if (std::isfinite(prediction_error_ratio.at(i))) errors[name] = prediction_error_ratio.at(i);
  }
  const nlohmann::ordered_json json = {{"version", kSummaryVersion},
                                       {"epochs_planned", epochs},
                                       {"steps_planned", steps},
                                       {"steps_delivered", steps_delivered},
                                       {"samples",
                                        {{"planned", planned},
                                         {"delivered", delivered},
                                         {"bad", bad},
                                         {"replaced", replaced},
                                         {"repeated", repeated},
                                         {"over_limit", over_limit},
                                         {"dropped", dropped},
                                         {"decoded_again", decoded_again}}},
                                       {"planning_seconds_mean", plan_seconds_mean},
                                       {"gap_mean", gap_mean},
                                       {"memory_peak_bytes", memory_peak_bytes},
                                       {"measurements", measurements},
                                       {"measurements_rejected", measurements_rejected},
                                       {"rank_slowdown", rank_slowdowns},
                                       {"reprofiles", reprofiles},
                                       {"reprofiles_kept", reprofiles_kept},
                                       {"reprofile_seconds", reprofile_seconds},
                                       {"prediction_error_ratio", errors}};
  return json.dump(2);
}

}  // namespace isocost
