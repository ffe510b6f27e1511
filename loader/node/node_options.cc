#include "loader/node/node_options.h"

#include "base/range.h"
#include "loader/metrics/endpoint.h"

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

Status NodeOptions::validate() const {
  if (data.empty()) {
    return Error(ErrorCode::kInvalidArgument, "data: name the directory that holds the shards");
  }
  ISOCOST_TRY(plan.validate());
  if (plan.on_long == LongPolicy::kTruncate &&
      (decode.recipe.model.empty() || plan.max_tokens == 0)) {
    return Error(
        ErrorCode::kInvalidArgument,
        "on_long = truncate: give model, whose tokens say where turns end, and max_tokens");
  }
  if (plan.padded_multiple > 1 && !cost_model.padded.at(static_cast<std::size_t>(Module::kLlm))) {
    return Error(ErrorCode::kInvalidArgument,
                 "padded_multiple = " + std::to_string(plan.padded_multiple) +
                     ": it is of a trainer that pads the LLM: give padded = llm as well");
  }
  ISOCOST_TRY(decode.validate());
  return service.validate();
}

}  // namespace isocost
