#include "cli/lab/emulate_layout.h"

#include <cstddef>
#include <string>

#include "balancer/layout/place.h"
#include "base/counted.h"
#include "cli/common/exit_status.h"

namespace isocost::cli {
namespace {

Status check_layout(const EmulateArguments& arguments, const Layout& layout) {
  constexpr std::size_t kMostThreads = 4096;
  if (receivers(layout) > kMostThreads) {
    return Error(ErrorCode::kInvalidArgument,
                 counted(receivers(layout), "stage") +
                     " over all replicas: each needs a thread, and 4096 are the limit");
  }
  if (layout.schedule == Schedule::kInterleaved1F1B) {
    return Error(ErrorCode::kInvalidArgument,
                 "schedule interleaved: emulate supports gpipe, 1f1b and zb-h1");
  }
  const std::size_t microbatches = layout.llm.data * layout.microbatches;
  if (arguments.global_batch_size < microbatches) {
    return Error(ErrorCode::kInvalidArgument,
                 "--global-batch-size is " + std::to_string(arguments.global_batch_size) +
                     "; there are " + counted(microbatches, "microbatch") +
                     " (replicas x microbatches) to fill");
  }
  return {};
}

Result<Layout> layout_of_flags(const EmulateArguments& arguments) {
  const auto schedule = schedule_from_name(arguments.schedule);
  if (!schedule) {
    return Error(ErrorCode::kInvalidArgument,
                 "--schedule is '" + arguments.schedule + "'; it must be gpipe, 1f1b or zb-h1");
  }
  if (arguments.encoder_stages >= arguments.pipeline_degree) {
    return Error(ErrorCode::kInvalidArgument,
                 "--encoder-pp is " + std::to_string(arguments.encoder_stages) +
                     "; it must be below --pp (" + std::to_string(arguments.pipeline_degree) + ")");
  }
  const std::size_t llm_stages = arguments.pipeline_degree - arguments.encoder_stages;
  return Layout{.encoder = {1, arguments.encoder_stages, arguments.data_degree},
                .llm = {1, llm_stages, arguments.data_degree},
                .microbatches = arguments.microbatches,
                .schedule = *schedule};
}

}  // namespace

Result<Layout> layout_of(const EmulateArguments& arguments) {
  if (arguments.layout.empty()) {
    ISOCOST_ASSIGN(Layout layout, layout_of_flags(arguments));
    ISOCOST_TRY(check_layout(arguments, layout));
    return layout;
  }
  ISOCOST_ASSIGN(Layout layout, as_usage_error(Layout::load(arguments.layout)));
  ISOCOST_TRY_CONTEXT(check_layout(arguments, layout), arguments.layout);
  return layout;
}

}  // namespace isocost::cli
