#include "balancer/pipeline/simulator.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "balancer/pipeline/internal/pipeline_graph.h"

namespace isocost {
namespace {

bool is_sane(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

Error too_few_layers() {
  return {ErrorCode::kInvalidArgument,
          "pipeline step: the layers that are reduced or gathered must be at least 1"};
}

Status check_numbers(const PipelineStep& step) {
  const auto bad = [](const std::string& what) {
    return Error(ErrorCode::kInvalidArgument,
                 "pipeline step: " + what + " must be finite and not negative");
  };
  if (!is_sane(step.link.latency_s) || !is_sane(step.link.bytes_per_s))
    return bad("link latency and rate");
  for (const ModulePipeline* module : {&step.encoder, &step.llm}) {
    for (const LayeredTransfer* transfer : {&module->transfers.gather, &module->transfers.reduce}) {
      if (!is_sane(transfer->seconds)) return bad("seconds of reduced and gathered layers");
      if (!(transfer->layers >= 1) || !std::isfinite(transfer->layers)) return too_few_layers();
    }
    for (const auto& passes : module->passes) {
      for (const StagePass& pass : passes) {
        if (!is_sane(pass.forward_s) || !is_sane(pass.backward_s) || !is_sane(pass.weights_s) ||
            pass.activation_bytes < 0 || pass.working_bytes < 0 || pass.output_bytes < 0) {
          return bad("a stage's seconds and bytes");
        }
      }
    }
  }
  for (const Feed& feed : step.feeds) {
    if (feed.bytes < 0) return bad("a feed's bytes");
  }
  return {};
}

std::vector<StageReport> list_stages(const PipelineStep& step) {
  std::vector<StageReport> stages;
  for (const bool encoder : {true, false}) {
    const ModulePipeline& module = encoder ? step.encoder : step.llm;
    if (module.stages == 0) continue;
    for (std::size_t replica = 0; replica < module.replicas(); ++replica) {
      for (std::size_t stage = 0; stage < module.stages; ++stage) {
        stages.push_back({.encoder = encoder,
                          .replica = static_cast<std::uint32_t>(replica),
                          .stage = static_cast<std::uint32_t>(stage)});
      }
    }
  }
  return stages;
}

// Tracks activations, which are held from the start of the forward pass to the end of the pass that
// frees them.
void track_memory(const PipelineGraph::Operation& operation, const StagePass& pass, bool split,
                  std::int64_t& held, StageReport& stage) {
  const PassKind freeing = split ? PassKind::kWeights : PassKind::kBackward;
  if (operation.pass.kind == PassKind::kForward) held += pass.activation_bytes;
  stage.peak_activation_bytes = std::max(stage.peak_activation_bytes, held + pass.working_bytes);
  if (operation.pass.kind == freeing) held -= pass.activation_bytes;
}

// Sets the seconds by which reductions end after the last replica has finished a stage.
// `last_passes` [stages] has the seconds of each stage's last pass.
void set_reductions(const PipelineStep& step, const std::vector<double>& last_passes,
                    std::vector<StageReport>& stages) {
  struct Group {
    double finish_s = 0;
    double end_s = 0;
  };
  std::vector<Group> groups(step.encoder.stages + step.llm.stages);
  const auto group_of = [&](const StageReport& stage) -> Group& {
    return groups[(stage.encoder ? 0 : step.encoder.stages) + stage.stage];
  };
  for (std::size_t d = 0; d < stages.size(); ++d) {
    const ModulePipeline& module = stages[d].encoder ? step.encoder : step.llm;
    Group& group = group_of(stages[d]);
    group.finish_s = std::max(group.finish_s, stages[d].finish_s);
    group.end_s = std::max(group.end_s,
                           stages[d].finish_s + module.transfers.reduce.exposed_s(last_passes[d]));
  }
  for (StageReport& stage : stages) {
    stage.reduce_s = group_of(stage).end_s - group_of(stage).finish_s;
  }
}

}  // namespace

std::int64_t PipelineReport::peak_activation_bytes() const {
  std::int64_t peak = 0;
  for (const StageReport& stage : stages) peak = std::max(peak, stage.peak_activation_bytes);
  return peak;
}

Result<PipelineReport> simulate(const PipelineStep& step) {
  ISOCOST_TRY(check_numbers(step));
  ISOCOST_ASSIGN(const PipelineGraph graph, PipelineGraph::build(step));
  const PassTable table(step);
  const auto operations = graph.operations();
  std::vector<double> ends(operations.size());
  PipelineReport report;
  report.step_s = graph.run(table, ends);
  report.stages = list_stages(step);
  report.events.reserve(operations.size());
  std::vector<std::int64_t> held(report.stages.size(), 0);
  std::vector<double> last_passes(report.stages.size(), 0.0);
  double busy = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const PipelineGraph::Operation& operation = operations[i];
    const double seconds = graph.seconds(operation, table);
    StageReport& stage = report.stages[operation.device];
    stage.busy_s += seconds;
    stage.finish_s = std::max(stage.finish_s, ends[i]);
    busy += seconds;
    last_passes[operation.device] = seconds;
    track_memory(operation, table.rows()[operation.row], step.schedule == Schedule::kZbH1,
                 held[operation.device], stage);
    report.events.push_back({operation.device, operation.pass, ends[i] - seconds, ends[i]});
  }
  set_reductions(step, last_passes, report.stages);
  const double available = report.step_s * static_cast<double>(report.stages.size());
  if (available > 0) report.idle_fraction = std::max(0.0, 1 - busy / available);
  return report;
}

std::vector<Feed> coupled_feeds(std::size_t encoder_replicas, std::size_t llm_replicas,
                                std::size_t microbatches) {
  std::vector<Feed> feeds;
  feeds.reserve(llm_replicas * microbatches);
  for (std::size_t number = 0; number < llm_replicas * microbatches; ++number) {
    feeds.push_back({.encoder_replica = static_cast<std::uint32_t>(number % encoder_replicas),
                     .slot = static_cast<std::uint32_t>(number / encoder_replicas),
                     .llm_replica = static_cast<std::uint32_t>(number % llm_replicas),
                     .microbatch = static_cast<std::uint32_t>(number / llm_replicas)});
  }
  return feeds;
}

void add_idle_slots(PipelineStep& step) {
  for (std::uint32_t e = 0; e < step.encoder.passes.size(); ++e) {
    if (!step.encoder.passes[e].empty()) continue;
    step.encoder.passes[e].resize(step.encoder.stages);
    step.feeds.push_back({.encoder_replica = e});
  }
}

}  // namespace isocost
