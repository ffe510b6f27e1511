#include "loader/node/internal/step_source.h"

#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/counted.h"
#include "loader/dataset/source_number.h"
#include "loader/node/internal/correction_file.h"
#include "loader/plan/planner.h"

namespace isocost {
namespace {

constexpr std::uint64_t kStepsBetweenSaves = 8;  // between two saves of the cost model's state

StepSample step_sample(DummySample dummy) {
  StepSample sample;
  sample.id = SampleEntry::kDummy;
  sample.load = dummy.load;
  sample.weight = 0;
  sample.parts = {std::move(dummy.part)};
  sample.specs = specs_of(dummy.tensors);
  auto decoded = std::make_shared<DecodedSample>();
  decoded->tensors = std::move(dummy.tensors);
  sample.decoded = std::move(decoded);
  return sample;
}

}  // namespace

StepSource::StepSource(const NodeParts& parts)
    : parts_(parts),
      order_(parts.orders.anew()),
      plan_options_(parts.options.plan),
      composer_(
          {&order_->cursor, parts.dataset.get(), &parts.recipe, parts.layout.get(), &parts.limits},
          parts.options.plan, *parts.options.cost_model.profile),
      batches_(
          {[this](std::uint64_t epoch, std::uint64_t step) { return composer_.batch(epoch, step); },
           [this](std::uint64_t epoch) { return order_->cursor.steps(epoch); },
           static_cast<std::uint64_t>(parts.options.plan.epochs),
           static_cast<std::size_t>(parts.options.service.plan_ahead),
           parts.dataset->reads_servers() && parts.options.plan.lookahead <= 1}),
      fingerprint_(composer_.fingerprint()),
      model_(*parts.model),
      reprofiling_({.allowed = parts.options.plan.reprofile,
                    .budget_share = parts.options.plan.reprofile_budget,
                    .layout = parts.layout.get(),
                    .clock = parts.clock},
                   model_, parts.log),
      layout_watch_(parts.layout.get(), parts.options, parts.log) {
  make_dummies();
}

// Makes the dummy samples of the recipe. A layout with stages, or with ranks for the encoder, gets
// none: its ranks do not run the whole model.
void StepSource::make_dummies() {
  const ServedLayout* layout = parts_.layout.get();
  const bool in_parts = layout != nullptr && (layout->pipelined() || layout->has_encoder_ranks());
  if (in_parts || plan_options_.dummy_media == DummyMediaPolicy::kOff) return;
  BufferPool pool;
  for (const Modality modality : {Modality::kImage, Modality::kVideo, Modality::kAudio}) {
    std::optional<DummySample> dummy = parts_.recipe.dummy(modality, pool);
    if (dummy) dummies_.push_back(step_sample(*std::move(dummy)));
  }
}

// Says once of each modality what stands in for it.
void StepSource::note_dummies(const SealedStep& sealed) {
  for (const StepSample& dummy : sealed.dummies) {
    const Modality modality = dummy.parts.front().modality;
    if ((noted_dummies_ & bit_of(modality)) != 0) continue;
    noted_dummies_ |= bit_of(modality);
    const std::int64_t tokens = dummy.load[CostModule::kLlm].units;
    log(parts_.log, LogLevel::kInfo,
        "dummy_media: a microbatch that lacks the modality " +
            std::string(modality_name(modality)) + " gets a dummy of " + counted(tokens, "token") +
            ", so that every rank runs the encoder");
  }
}

// Says of a source that has got all of its epochs that the others share its proportion.
void StepSource::note_ended(std::uint32_t step) {
  if (order_->mixture == nullptr || order_->mixture->mixture().by_size()) return;
  for (const std::string& name : order_->mixture->ended_with(step)) {
    log(parts_.log, LogLevel::kInfo,
        "source '" + name + "' gives its last samples about step " + std::to_string(step) +
            ", as it has been read as often as its epochs say: the other sources share its "
            "proportion from here on");
  }
}

void StepSource::receive_state(std::string cost_model_state) {
  if (cost_model_state.empty() || !parts_.options.cost_model.correct) return;
  const MutexLock lock(mutex_);
  received_ = std::move(cost_model_state);
}

void StepSource::restore_received() {
  std::string cost_model_state;
  {
    const MutexLock lock(mutex_);
    cost_model_state.swap(received_);
  }
  // Every rank of a job brings the same state, which is restored once.
  if (cost_model_state.empty() || cost_model_state == restored_) return;
  if (model_.has_measurements()) return;
  restored_ = cost_model_state;
  const Status restored = model_.restore_state(cost_model_state);
  if (restored) return;
  const bool of_another = restored.error().code() == ErrorCode::kInvalidArgument;
  log(parts_.log, LogLevel::kWarning,
      "the cost model's part of the saved state " +
          (of_another ? std::string("belongs to another model profile")
                      : "cannot be read (" + restored.error().message() + ")") +
          ": it is ignored, and correction starts without it");
}

void StepSource::draw_by(std::shared_ptr<const JobOrder> order) {
  composer_.draw_from(order->cursor);
  batches_.clear();
  order_ = std::move(order);
}

void StepSource::begin_job(std::int64_t ranks) {
  if (parts_.layout == nullptr) plan_options_.ranks = ranks;
  model_.begin_job();
  reprofiling_.begin_job();
  measured_steps_.begin_job();
}

PlanInput StepSource::plan_input(std::span<const StepSample> samples) const {
  PlanInput input;
  for (const StepSample& sample : samples) {
    input.loads.push_back(sample.load);
    input.weights.push_back(sample.weight);
    input.ids.push_back(sample.id);
    ModalitySet media = 0;
    for (const SamplePart& part : sample.parts) {
      media |= bit_of(parts_.recipe.encoder_call(part.modality));
    }
    input.media.push_back(media);
  }
  for (const StepSample& dummy : dummies_) {
    input.dummies.push_back({dummy.parts.front().modality, dummy.load});
  }
  return input;
}

Result<StepPlan> StepSource::plan(std::span<const StepSample> samples) {
  return model_.plan([&](const CostModel& model) { return plan_with(model, samples); });
}

Result<StepPlan> StepSource::plan_with(const CostModel& model,
                                       std::span<const StepSample> samples) const {
  return plan_step(plan_input(samples), model, plan_options_, parts_.layout.get());
}

// Returns what metrics say of the sources of a mixture; nothing without one.
std::vector<SampleOfSource> StepSource::sources_of(std::span<const StepSample> samples,
                                                   const CostModel& model) const {
  std::vector<SampleOfSource> sources;
  const Dataset& dataset = *parts_.dataset;
  if (dataset.sources().front().name.empty()) return sources;
  sources.reserve(samples.size());
  for (const StepSample& sample : samples) {
    const ModuleSeconds seconds = model.predict_sample(sample.load);
    sources.push_back({static_cast<std::uint32_t>(source_number(dataset, sample.id)),
                       std::accumulate(seconds.begin(), seconds.end(), 0.0)});
  }
  return sources;
}

Result<std::shared_ptr<SealedStep>> StepSource::seal(const Request& request) {
  auto sealed = std::make_shared<SealedStep>();
  sealed->epoch = request.epoch;
  sealed->step = request.step;
  // A window of several batches is composed by the loads of its samples, which are read.
  const auto batch = [&] { return samples(request.epoch, request.step); };
  ISOCOST_ASSIGN(const std::span<const SampleId> ids,
                 request.decoder.retry().run(request.stop, batch));
  const auto following = [this](std::size_t index) { return batches_.following(index); };
  const auto drawn = [this](std::size_t index) { return batches_.drawn(index); };
  ISOCOST_ASSIGN(sealed->samples, request.decoder.decode_step(ids, following, request.stop, drawn));
  if (sealed->samples.empty()) return std::shared_ptr<SealedStep>();

  restore_received();
  reprofiling_.adopt_received();
  const MonotonicTime started = parts_.clock();
  ISOCOST_ASSIGN(sealed->plan, model_.plan([&](const CostModel& model) {
    sealed->sources = sources_of(sealed->samples, model);
    // All receivers are told alike: seconds of some ranks say nothing without those of the others.
    sealed->seconds_wanted = measured_steps_.next(model.measuring_stride());
    const PlanInput input = plan_input(sealed->samples);
    layout_watch_.observe(model, input.loads);
    return plan_step(input, model, plan_options_, parts_.layout.get());
  }));
  sealed->take_dummies(dummies_);
  note_dummies(*sealed);
  note_ended(request.step);
  sealed->count_readers();
  sealed->plan_seconds = seconds_between(started, parts_.clock());
  sealed->profile_budget_s = reprofiling_.ask({request.epoch, request.step, 0});
  if (++steps_sealed_ % kStepsBetweenSaves == 0 && parts_.options.cost_model.correct) {
    save_correction();
    sealed->cost_model_state = model_.save_state();
  }
  return sealed;
}

// Logs a failed write instead of ending training, since the state can be learned again.
void StepSource::save_correction() {
  if (!parts_.options.cost_model.correct) return;
  const Status saved = isocost::save_correction(model_, parts_.options.cost_model.correction_file);
  if (saved) return;
  log(parts_.log, LogLevel::kWarning,
      "correction_file: " + saved.error().message() + "; training goes on without saving it");
}

bool StepSource::continues(std::uint64_t other, std::uint64_t step) const {
  return composer_.continues(other, step);
}

}  // namespace isocost
