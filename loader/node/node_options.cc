#include "loader/node/node_options.h"

#include <string>
#include <utility>

#include "base/range.h"
#include "costmodel/profile.h"
#include "loader/metrics/endpoint.h"
#include "loader/plan/microbatch_limits.h"
#include "loader/plan/served_layout.h"

namespace isocost {

Status ServiceOptions::validate() const {
  ISOCOST_TRY(check_range("plan_ahead", plan_ahead, 1, 1000));
  ISOCOST_TRY(check_range("io_threads", io_threads, 1, 64));
  ISOCOST_TRY(check_range("heartbeat_timeout", heartbeat_timeout, std::chrono::milliseconds(100),
                          std::chrono::hours(24)));
  ISOCOST_TRY(check_range("stall_timeout", stall_timeout, std::chrono::milliseconds(0),
                          std::chrono::hours(24 * 7)));
  if (!metrics.empty()) {
    ISOCOST_TRY_CONTEXT(parse_metrics_address(metrics), "metrics");
  }
  return {};
}

Status NodeOptions::read_files() {
  ISOCOST_TRY(plan.read_layout());
  if (cost_model.profile != nullptr) return {};
  CostProfile profile = CostProfile::stated_default();
  if (!cost_model.profile_file.empty()) {
    ISOCOST_ASSIGN(profile, CostProfile::load(cost_model.profile_file));
  }
  cost_model.profile = std::make_shared<const CostProfile>(std::move(profile));
  return {};
}

Status NodeOptions::validate() const {
  if (data.empty()) {
    return Error(ErrorCode::kInvalidArgument, "data: name the directory that holds the shards");
  }
  // Compares a layout's counts before checking the values that follow from them.
  if (cost_model.profile != nullptr) ISOCOST_TRY(check_layout(plan, *cost_model.profile));
  ISOCOST_TRY(plan.validate());
  if (cost_model.profile != nullptr) {
    ISOCOST_TRY(MicrobatchLimits::create(plan, *cost_model.profile));
  }
  if (plan.on_long == LongPolicy::kTruncate &&
      (model_directory(decode.recipe).empty() || plan.max_tokens == 0)) {
    return Error(
        ErrorCode::kInvalidArgument,
        "on_long = truncate: give model, whose tokens say where turns end, and max_tokens");
  }
  if (plan.dummy_media == DummyMediaPolicy::kAlways && model_directory(decode.recipe).empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "dummy_media = always: give model, whose encoder needs them");
  }
  if (plan.padded_multiple > 1 &&
      !cost_model.padded.at(static_cast<std::size_t>(CostModule::kLlm))) {
    return Error(ErrorCode::kInvalidArgument,
                 "padded_multiple = " + std::to_string(plan.padded_multiple) +
                     ": it is of a trainer that pads the LLM: give padded = llm as well");
  }
  ISOCOST_TRY(decode.validate());
  ISOCOST_TRY(shards.validate());
  return service.validate();
}

}  // namespace isocost
