#include "cli/lab/shared_pipeline.h"

#include <utility>

namespace isocost::cli {

SharedModule::SharedModule(const ModuleStages& module) {
  if (module.stages == 0) return;
  for (std::size_t r = 0; r < module.replicas; ++r) {
    timelines.push_back(std::make_unique<ReplicaTimeline>());
  }
  for (std::size_t s = 0; s < module.stages; ++s) {
    reductions.push_back(std::make_unique<Barrier>(module.replicas, nullptr));
  }
}

EmulatedMicrobatches SharedModule::microbatches() const {
  EmulatedMicrobatches all;
  for (const auto& timeline : timelines) all.push_back(timeline->microbatches());
  return all;
}

SharedPipeline::SharedPipeline(const EmulatedJob& of_job, std::vector<std::uint32_t> taken_before,
                               std::size_t stages, const std::stop_token& stop)
    : job(of_job),
      taken(std::move(taken_before)),
      prices(job.job.profile),
      fault(stop),
      encoder(job.model.encoder),
      llm(job.model.llm),
      recorder(job.model, job.warm_up),
      start(stages, [this](EmulatedTime now) { recorder.begin(now); }),
      end(stages, [this](EmulatedTime now) {
        recorder.end(now, encoder.microbatches(), llm.microbatches());
      }) {}

}  // namespace isocost::cli
