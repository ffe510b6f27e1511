#include "cli/lab/simulate_layout.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>

#include "cli/common/exit_status.h"

namespace isocost::cli {
namespace {

// Returns the number of encoder stages for which the mean sample's busiest stage is the fastest.
std::size_t fair_encoder_stages(std::size_t pipeline_degree, const SampleCost& mean) {
  std::size_t best = 1;
  double least = 0;
  for (std::size_t stages = 1; stages < pipeline_degree; ++stages) {
    const double busiest = std::max(mean.encoder_s / static_cast<double>(stages),
                                    mean.llm_s / static_cast<double>(pipeline_degree - stages));
    if (stages == 1 || busiest < least) {
      best = stages;
      least = busiest;
    }
  }
  return best;
}

// Returns the largest of 1, 2 and 4 that divides the heads of all modules.
std::size_t usual_tensor_degree(const JobModel& job) {
  std::int64_t heads = std::gcd(job.llm.heads, job.encoder.heads);
  if (job.second_encoder) heads = std::gcd(heads, job.second_encoder->heads);
  return static_cast<std::size_t>(std::gcd(heads, std::int64_t{4}));
}

// Returns 16, rounded up to a multiple of the stages if chunks interleave.
std::size_t usual_microbatches(const Layout& layout) {
  constexpr std::size_t kUsual = 16;
  const std::size_t group = layout.chunks > 1 ? layout.llm.pipeline : 1;
  return (kUsual + group - 1) / group * group;
}

std::size_t usual_chunks(Schedule schedule) {
  return schedule == Schedule::kInterleaved1F1B ? 2 : 1;
}

Result<Layout> layout_of_flags(const SimulateArguments& arguments, const SampleCost& mean,
                               const JobModel& job) {
  const auto schedule = schedule_from_name(arguments.schedule);
  if (!schedule) {
    return Error(
        ErrorCode::kInvalidArgument,
        "--schedule is '" + arguments.schedule + "'; it must be gpipe, 1f1b, interleaved or zb-h1");
  }
  Layout layout;
  layout.schedule = *schedule;
  layout.chunks = arguments.chunks > 0 ? arguments.chunks : usual_chunks(*schedule);
  const std::size_t tensor =
      arguments.tensor_degree > 0 ? arguments.tensor_degree : usual_tensor_degree(job);
  if (arguments.pipeline_degree == 1) {
    if (arguments.encoder_stages > 0) {
      return Error(ErrorCode::kInvalidArgument,
                   "--encoder-pp: with --pp 1 both modules share the one stage; leave it out");
    }
    layout.encoder_place = EncoderPlacement::kLlmRanks;
    layout.llm = {tensor, 1, arguments.data_degree};
    layout.encoder = layout.llm;
  } else {
    const std::size_t stages = arguments.encoder_stages > 0
                                   ? arguments.encoder_stages
                                   : fair_encoder_stages(arguments.pipeline_degree, mean);
    if (stages >= arguments.pipeline_degree) {
      return Error(ErrorCode::kInvalidArgument,
                   "--encoder-pp is " + std::to_string(stages) + "; it must be below --pp (" +
                       std::to_string(arguments.pipeline_degree) + ")");
    }
    layout.encoder = {tensor, stages, arguments.data_degree};
    layout.llm = {tensor, arguments.pipeline_degree - stages, arguments.data_degree};
  }
  layout.microbatches =
      arguments.microbatches > 0 ? arguments.microbatches : usual_microbatches(layout);
  return layout;
}

}  // namespace

Result<Layout> layout_of(SimulateArguments& arguments, const SampleCost& mean, JobModel& job) {
  if (arguments.layout.empty()) return layout_of_flags(arguments, mean, job);
  ISOCOST_ASSIGN(Layout layout, as_usage_error(Layout::load(arguments.layout)));
  if (arguments.interconnect.empty()) {
    ISOCOST_ASSIGN(job.cluster, Cluster::parse_interconnect(layout.interconnect));
  }
  if (!arguments.order.caps.any()) arguments.order.caps = layout.activation_caps;
  return layout;
}

}  // namespace isocost::cli
