#include "loader/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "balancer/pipeline_svg.h"

namespace isocost {
namespace {

// A trainer that never reports on some microbatch leaves its steps open; the oldest go.
constexpr std::size_t kMostOpenSteps = 16;
constexpr std::size_t kMostRows = 32;

double sum_of(const ModuleSeconds& seconds) {
  double sum = 0;
  for (const double of_module : seconds) sum += std::max(of_module, 0.0);
  return sum;
}

bool is_time(double seconds) {
  return seconds >= kLeastModuleSeconds && seconds <= kMostModuleSeconds;  // NaN, too, is not
}

// Data-parallel ranks, each a stage that holds the whole model.
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
  module.reduce_s = stages.reduce_s;
  if (stages.stages > 0) module.passes.resize(stages.replicas);
  return module;
}

std::int64_t bytes_of(double units, double bytes_per_unit) {
  return static_cast<std::int64_t>(units * bytes_per_unit);
}

double media_units(const Load& load) {
  return static_cast<double>(load[Module::kVision].units + load[Module::kAudio].units);
}

// The encoder's microbatches that hold something, numbered; a replica without any has an idle one,
// which feeds the first microbatch: the simulator wants one.
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
    if (!passes.empty()) continue;
    passes.resize(model.encoder.stages);
    step.feeds.push_back({.encoder_replica = e});
  }
  return slots;
}

// What a microbatch of the LLM takes from each of the encoder's, its tokens by their rows.
void add_feeds(const PlannedMicrobatch& bin, std::uint32_t replica, std::uint32_t microbatch,
               const PipelineModel& model, const std::vector<std::vector<std::uint32_t>>& slots,
               PipelineStep& step) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> rows;
  double all = 0;
  for (const Route& route : bin.routes) {
    rows[{route.replica, route.microbatch}] += route.units;
    all += route.units;
  }
  const double bytes =
      static_cast<double>(bin.run_load[Module::kLlm].units) * model.feed_bytes_per_llm_unit;
  for (const auto& [from, units] : rows) {
    step.feeds.push_back({from.first, slots[from.first][from.second], replica, microbatch,
                          bytes_of(units / all, bytes)});
  }
}

std::string title_of(std::string_view what, std::uint32_t epoch, std::uint32_t step,
                     const PipelineReport& report) {
  return fmt::format("{}: epoch {}, step {}: {:.4g} s, {:.1f} % idle", what, epoch, step,
                     report.step_s, 100 * report.idle_share);
}

std::string note(std::string_view text) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"60\" "
      "font-family=\"sans-serif\">"
      "<rect width=\"720\" height=\"60\" fill=\"#fff\"/><text x=\"16\" y=\"35\">{}</text></svg>\n",
      text);
}

}  // namespace

Timeline::Step Timeline::open(const StepPlan& plan) const {
  PipelineModel model = layout_ == nullptr ? ranks_model(plan) : layout_->pipeline({});
  Step opened;
  PipelineStep& step = opened.predicted;
  step.schedule = model.schedule;
  step.encoder = module_of(model.encoder);
  step.llm = module_of(model.llm);
  step.link = model.link;
  step.encoder_ahead = model.encoder_ahead;
  opened.slots = add_encoder(plan, model, step);
  const std::size_t chunks = step.llm.model_chunks();
  for (std::uint32_t r = 0; r < model.llm.replicas; ++r) {
    for (std::uint32_t m = 0; m < plan.microbatches; ++m) {
      const PlannedMicrobatch& bin = plan.bin(r, m);
      const StagePass pass{.output_bytes =
                               bytes_of(static_cast<double>(bin.run_load[Module::kLlm].units),
                                        model.llm.output_bytes_per_unit)};
      step.llm.passes[r].insert(step.llm.passes[r].end(), chunks, pass);
      add_feeds(bin, r, m, model, opened.slots, step);
    }
  }
  opened.measured = step;
  for (std::size_t receiver = 0; receiver < plan.receivers(); ++receiver) {
    std::vector<bool>& missing = opened.missing.emplace_back();
    for (std::uint32_t m = 0; m < plan.microbatches_of(receiver); ++m) {
      const PlannedMicrobatch& microbatch = plan.microbatch_of(receiver, m);
      missing.push_back(!microbatch.samples.empty());
      if (!missing.back()) continue;
      opened.left += 1;
      double seconds = sum_of(microbatch.predicted);
      if (layout_ != nullptr) {
        seconds = sum_of(
            layout_->on_seat(plan.seats[receiver], microbatch.predicted, microbatch.run_load));
      }
      if (receiver < plan.speeds.size()) seconds *= plan.speeds[receiver];
      set(step, opened, plan, receiver, m, plan.forward_share * seconds,
          (1 - plan.forward_share) * seconds);
    }
  }
  return opened;
}

void Timeline::set(PipelineStep& step, const Step& of, const StepPlan& plan, std::size_t receiver,
                   std::uint32_t microbatch, double forward_s, double backward_s) const {
  const bool encoder = layout_ != nullptr && plan.seats[receiver].module == LayoutModule::kEncoder;
  const std::size_t replica = layout_ == nullptr ? receiver : plan.seats[receiver].replica;
  const std::size_t stage = layout_ == nullptr ? 0 : plan.seats[receiver].stage;
  ModulePipeline& module = encoder ? step.encoder : step.llm;
  const std::size_t slot = encoder ? of.slots[replica][microbatch] : microbatch;
  const auto chunks = static_cast<double>(module.chunks);
  for (std::size_t c = 0; c < module.chunks; ++c) {  // of a stage's chunks the sum is known
    StagePass& pass =
        module.passes[replica][slot * module.model_chunks() + c * module.stages + stage];
    pass.forward_s = forward_s / chunks;
    pass.backward_s = backward_s / 2 / chunks;
    pass.weights_s = backward_s / 2 / chunks;
  }
}

void Timeline::reported(std::uint64_t job, std::int32_t rank, const Report& report,
                        const StepPlan& plan) {
  const double seconds = sum_of(report.seconds);
  if (!is_time(seconds)) return;
  const auto receiver = static_cast<std::size_t>(rank);
  const StepId id{job, report.position.epoch, report.position.step};
  const std::lock_guard lock(mutex_);
  if (newest_ && id <= newest_->first) return;
  const auto [found, fresh] = open_.try_emplace(id);
  Step& step = found->second;
  if (fresh) step = open(plan);
  const std::uint32_t microbatch = report.position.microbatch;
  if (receiver >= step.missing.size() || !step.missing[receiver].at(microbatch)) return;
  step.missing[receiver][microbatch] = false;
  step.left -= 1;
  const bool told = is_time(report.forward_s) && report.forward_s <= seconds;
  const double forward_s = told ? report.forward_s : plan.forward_share * seconds;
  set(step.measured, step, plan, receiver, microbatch, forward_s, seconds - forward_s);
  if (step.left == 0) {
    newest_.emplace(id, std::move(step));
    open_.erase(open_.begin(), std::next(found));  // older ones are of no use any more
  } else if (open_.size() > kMostOpenSteps) {
    open_.erase(open_.begin());
  }
}

std::string Timeline::svg() const {
  std::optional<std::pair<StepId, Step>> newest;
  {
    const std::lock_guard lock(mutex_);
    newest = newest_;
  }
  if (!newest)
    return note("No step has been measured whole yet: trainers report seconds of each microbatch.");
  const auto predicted = simulate(newest->second.predicted);
  const auto measured = simulate(newest->second.measured);
  if (!predicted || !measured) {
    return note("The last step had fewer microbatches than its schedule can run.");
  }
  const StepId& id = newest->first;
  // Both of the replica that the step waited for.
  const std::uint32_t slowest = last_llm_replica(*measured);
  return draw_pipelines(
      {{title_of("predicted", id.epoch, id.step, *predicted), *predicted, slowest},
       {title_of("measured", id.epoch, id.step, *measured), *measured, slowest}},
      kMostRows);
}

}  // namespace isocost
