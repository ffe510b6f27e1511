#include "loader/report/timeline.h"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <utility>

#include "base/units.h"
#include "loader/report/internal/svg.h"
#include "loader/report/pipeline_svg.h"

namespace isocost {
namespace {

constexpr std::size_t kMostRows = 32;

// Returns the model of data-parallel ranks, each a stage that holds the whole model.
PipelineModel ranks_model(const StepPlan& plan) {
  PipelineModel model;
  model.microbatches = plan.microbatches;
  model.llm = {.replicas = plan.receivers(), .stages = 1, .shares = {1}};
  return model;
}

ModulePipeline module_of(const ModuleStages& stages) {
  ModulePipeline module;
  module.stages = stages.stages;
  module.chunks = stages.chunks;
  module.transfers = stages.transfers;
  if (stages.stages > 0) module.passes.resize(stages.replicas);
  return module;
}

std::int64_t bytes_of(double units, double bytes_per_unit) {
  return static_cast<std::int64_t>(units * bytes_per_unit);
}

double media_units(const Load& load) {
  return static_cast<double>(load[CostModule::kVision].units + load[CostModule::kAudio].units);
}

// Adds the encoder's passes. Returns the slot of each of its microbatches; empty ones have no pass.
std::vector<std::vector<std::uint32_t>> add_encoder(const StepPlan& plan,
                                                    const PipelineModel& model,
                                                    PipelineStep& step) {
  std::vector<std::vector<std::uint32_t>> slots;
  for (std::uint32_t e = 0; e < plan.encoder.size(); ++e) {
    auto& numbers = slots.emplace_back();
    auto& passes = step.encoder.passes[e];
    for (const PlannedMicrobatch& microbatch : plan.encoder[e]) {
      numbers.push_back(static_cast<std::uint32_t>(passes.size() / model.encoder.stages));
      if (microbatch.samples.empty()) continue;
      const StagePass pass{.output_bytes = bytes_of(media_units(microbatch.run_load),
                                                    model.encoder.output_bytes_per_unit)};
      passes.insert(passes.end(), model.encoder.stages, pass);
    }
  }
  add_idle_slots(step);
  return slots;
}

struct BinIndex {
  std::uint32_t replica = 0;
  std::uint32_t microbatch = 0;
};

// Adds the feeds of an LLM microbatch from each of the encoder's, in proportion to its rows.
void add_feeds(const PlannedMicrobatch& bin, const BinIndex& at, const PipelineModel& model,
               const std::vector<std::vector<std::uint32_t>>& slots, PipelineStep& step) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> rows;
  double all = 0;
  for (const Route& route : bin.routes) {
    rows[{route.replica, route.microbatch}] += route.units;
    all += route.units;
  }
  const double bytes =
      static_cast<double>(bin.run_load[CostModule::kLlm].units) * model.feed_bytes_per_llm_unit;
  for (const auto& [from, units] : rows) {
    step.feeds.push_back({from.first, slots[from.first][from.second], at.replica, at.microbatch,
                          bytes_of(units / all, bytes)});
  }
}

void add_microbatch(const PlannedMicrobatch& bin, const BinIndex& at, const PipelineModel& model,
                    const std::vector<std::vector<std::uint32_t>>& slots, PipelineStep& step) {
  const StagePass pass{.output_bytes =
                           bytes_of(static_cast<double>(bin.run_load[CostModule::kLlm].units),
                                    model.llm.output_bytes_per_unit)};
  auto& passes = step.llm.passes[at.replica];
  passes.insert(passes.end(), step.llm.model_chunks(), pass);
  add_feeds(bin, at, model, slots, step);
}

// Returns the shares of a stage's seconds that its model chunks take.
std::vector<double> chunk_shares(const PipelineModel& model, bool encoder, std::size_t stage,
                                 const PlannedMicrobatch& microbatch) {
  if (encoder || model.llm.chunks == 1) return {1};
  const double llm_s = microbatch.predicted.at(static_cast<std::size_t>(CostModule::kLlm));
  const double encoder_s =
      std::accumulate(microbatch.predicted.begin(), microbatch.predicted.end(), -llm_s);
  std::vector<double> shares;
  for (std::size_t c = stage; c < model.llm.shares.size(); c += model.llm.stages) {
    shares.push_back(llm_s * model.llm.shares[c]);
    if (!model.encoder_on_llm.empty()) shares.back() += encoder_s * model.encoder_on_llm[c];
  }
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) {
    share = all > 0 ? share / all : 1 / static_cast<double>(shares.size());
  }
  return shares;
}

bool can_run(const StepPlan& plan, const ServedLayout* layout) {
  return layout == nullptr || layout->can_run(plan.microbatches);
}

std::string title_of(std::string_view what, std::uint32_t epoch, std::uint32_t step,
                     const PipelineReport& report) {
  return fmt::format("{}: epoch {}, step {}: {:.4g} s, {:.1f} % idle", what, epoch, step,
                     report.step_s, 100 * report.idle_fraction);
}

// Returns a picture that holds a sentence.
std::string note(std::string_view text) {
  report::SvgWriter svg;
  svg.text({16, 35}, text, {.size = 14});
  return svg.file(720, 60);
}

}  // namespace

Timeline::Step Timeline::open(const StepPlan& plan) const {
  Step opened;
  opened.model = layout_ == nullptr ? ranks_model(plan) : layout_->pipeline({});
  opened.missing = MissingReports(plan);
  const PipelineModel& model = opened.model;
  PipelineStep& step = opened.predicted;
  step.schedule = model.schedule;
  step.encoder = module_of(model.encoder);
  step.llm = module_of(model.llm);
  step.link = model.link;
  step.encoder_ahead = model.encoder_ahead;
  opened.slots = add_encoder(plan, model, step);
  for (std::uint32_t r = 0; r < model.llm.replicas; ++r) {
    for (std::uint32_t m = 0; m < plan.microbatches; ++m) {
      add_microbatch(plan.bin(r, m), {r, m}, model, opened.slots, step);
    }
  }
  opened.measured = step;
  for (std::size_t receiver = 0; receiver < opened.missing.receivers(); ++receiver) {
    for (std::uint32_t m = 0; m < plan.microbatches_of(receiver); ++m) {
      const double seconds = plan.seconds_of(receiver, m);
      if (!(seconds > 0)) continue;
      const double forward_s = plan.forward_share * seconds;
      set(plan, opened, {receiver, m, forward_s, seconds - forward_s}, step);
    }
  }
  return opened;
}

void Timeline::set(const StepPlan& plan, const Step& of, const Passes& passes, PipelineStep& step) {
  const auto& [receiver, microbatch, forward_s, backward_s] = passes;
  const Receiver* const place =
      plan.layout_receivers.empty() ? nullptr : &plan.layout_receivers[receiver];
  const bool encoder = place != nullptr && place->module == LayoutModule::kEncoder;
  const std::size_t replica = place == nullptr ? receiver : place->replica;
  const std::size_t stage = place == nullptr ? 0 : place->stage;
  ModulePipeline& module = encoder ? step.encoder : step.llm;
  const std::size_t slot = encoder ? of.slots[replica][microbatch] : microbatch;
  const std::vector<double> shares =
      chunk_shares(of.model, encoder, stage, plan.microbatch_of(receiver, microbatch));
  for (std::size_t c = 0; c < module.chunks; ++c) {
    StagePass& pass =
        module.passes[replica][slot * module.model_chunks() + c * module.stages + stage];
    pass.forward_s = shares[c] * forward_s;
    pass.backward_s = shares[c] * backward_s / 2;
    pass.weights_s = shares[c] * backward_s / 2;
  }
}

void Timeline::reported(const StepId& id, std::int32_t rank, const Report& report,
                        const StepPlan& plan) {
  double seconds = 0;
  for (const double of_module : report.seconds)
    seconds += is_module_time(of_module) ? of_module : 0;
  if (!is_module_time(seconds) || !can_run(plan, layout_)) return;
  const auto receiver = static_cast<std::size_t>(rank);
  const std::uint32_t microbatch = report.position.microbatch;
  const MutexLock lock(mutex_);
  if (newest_ && id <= newest_->first) return;
  Step& step = open_.at(id, [&] { return open(plan); });
  if (!step.missing.take(receiver, microbatch)) return;
  const bool told = is_module_time(report.forward_s) && report.forward_s <= seconds;
  const double forward_s = told ? report.forward_s : plan.forward_share * seconds;
  set(plan, step, {receiver, microbatch, forward_s, seconds - forward_s}, step.measured);
  if (step.missing.left() > 0) return;
  newest_.emplace(id, std::move(step));
  open_.erase(id);
}

std::string Timeline::svg() const {
  std::optional<std::pair<StepId, Step>> newest;
  {
    const MutexLock lock(mutex_);
    newest = newest_;
  }
  if (!newest) {
    return note(
        "No step has been measured completely yet: trainers must report seconds of every "
        "microbatch.");
  }
  const auto predicted = simulate(newest->second.predicted);
  const auto measured = simulate(newest->second.measured);
  if (!predicted) return note(predicted.error().message());
  if (!measured) return note(measured.error().message());
  const StepId& id = newest->first;
  // Both show the replica that the step waited for.
  const std::uint32_t slowest = last_llm_replica(*measured);
  return draw_pipelines(
      {{title_of("predicted", id.epoch, id.step, *predicted), *predicted, slowest},
       {title_of("measured", id.epoch, id.step, *measured), *measured, slowest}},
      kMostRows);
}

}  // namespace isocost
