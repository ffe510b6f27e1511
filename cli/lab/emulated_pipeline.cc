#include "cli/lab/emulated_pipeline.h"

#include <thread>
#include <utility>

#include "cli/lab/shared_pipeline.h"
#include "cli/lab/stage_thread.h"

namespace isocost::cli {
namespace {

std::vector<StageId> stages_of(const PipelineModel& model) {
  std::vector<StageId> stages;
  for (const bool encoder : {true, false}) {
    const ModuleStages& module = encoder ? model.encoder : model.llm;
    for (std::uint32_t r = 0; r < module.replicas && module.stages > 0; ++r) {
      for (std::uint32_t s = 0; s < module.stages; ++s) {
        stages.push_back({encoder, r, s, stages.size()});
      }
    }
  }
  return stages;
}

}  // namespace

Result<std::vector<EmulatedStep>> run_emulated_pipeline(const EmulatedJob& job,
                                                        const std::stop_token& stop) {
  ISOCOST_TRY(job.model.validate());
  ISOCOST_ASSIGN(auto taken, taken_before(job.model.schedule, job.model.llm.stages, /*chunks=*/1,
                                          job.model.microbatches));
  const std::vector<StageId> stages = stages_of(job.model);
  SharedPipeline shared(job, std::move(taken), stages.size(), stop);
  {
    std::vector<std::jthread> threads;
    threads.reserve(stages.size());
    for (const StageId& stage : stages) {
      threads.emplace_back([stage, &shared] {
        const Status status = StageThread(stage, shared).train();
        if (!status) shared.fault.raise(status.error());
      });
    }
  }
  if (const auto error = shared.fault.error()) return *error;
  if (shared.recorder.steps().size() < job.steps) return Error(ErrorCode::kCancelled, "stopped");
  return shared.recorder.steps();
}

}  // namespace isocost::cli
