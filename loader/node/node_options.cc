#include "loader/node/node_options.h"

#include "base/range.h"
#include "loader/metrics/endpoint.h"

namespace isocost {

Status ServiceOptions::validate() const {
  ISOCOST_TRY(check_range("plan_ahead", plan_ahead, 1, 1000));
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
  ISOCOST_TRY(decode.validate());
  return service.validate();
}

}  // namespace isocost
