#include "balancer/pipeline/internal/decoupled_step.h"

#include <algorithm>
#include <limits>

#include "balancer/pipeline/internal/narrow.h"

namespace isocost {
namespace {

constexpr std::size_t kForward = static_cast<std::size_t>(PassKind::kForward);
constexpr std::size_t kBackward = static_cast<std::size_t>(PassKind::kBackward);
constexpr std::size_t kWeights = static_cast<std::size_t>(PassKind::kWeights);
constexpr std::uint32_t kNoInterval = std::numeric_limits<std::uint32_t>::max();

}  // namespace

Result<DecoupledStep> DecoupledStep::create(const PipelineModel& model,
                                            std::span<const SampleCost> samples,
                                            const ActivationCaps& caps) {
  ISOCOST_TRY(model.validate());
  DecoupledStep step(model, samples, caps);
  step.split_ = model.schedule == Schedule::kZbH1;
  ISOCOST_TRY(step.learn_moves());
  const std::size_t llm_slots = model.slots();
  const std::size_t rows = llm_slots * model.llm.shares.size();
  step.llm_seconds_.resize(rows * kKinds);
  step.llm_delays_.resize(rows);
  step.llm_bytes_.resize(rows);
  step.llm_working_.resize(rows);
  step.llm_ends_.resize(model.llm.replicas * step.moves_.size());
  step.llm_next_.resize(model.llm.replicas);
  step.ready_.resize(llm_slots);
  step.missing_.resize(llm_slots);
  step.gradient_.resize(llm_slots);
  step.most_slots_ = llm_slots;
  const std::size_t encoders = model.encoder.replicas;
  step.slots_.resize(encoders * llm_slots);
  step.slot_count_.resize(encoders);
  step.open_.resize(encoders);
  step.encoder_passes_.resize(step.slots_.size() * model.encoder.stages);
  step.forward_ends_.resize(step.encoder_passes_.size());
  step.backward_ends_.resize(step.encoder_passes_.size());
  step.stages_.resize(encoders * model.encoder.stages);
  step.scratch_.resize(model.llm.shares.size());
  return step;
}

// Learns the LLM's moves from a pipeline with one replica of each module: all replicas run the same
// moves.
Status DecoupledStep::learn_moves() {
  PipelineModel one = *model_;
  one.encoder.replicas = one.llm.replicas = 1;
  one.encoder.slowdowns.clear();
  one.llm.slowdowns.clear();
  const std::vector<SampleCost> nothing(one.slots());
  const PipelineStep shape = make_step(one, nothing);
  ISOCOST_ASSIGN(const PipelineGraph graph, PipelineGraph::build(shape));
  const std::size_t chunks = one.llm.shares.size();
  const std::size_t first_row = one.microbatches * one.encoder.stages;
  std::vector<std::int32_t> done(one.microbatches * chunks * kKinds, -1);
  std::vector<std::int32_t> last(graph.devices(), -1);
  taken_.assign(one.microbatches, 0);
  std::uint32_t taken = 0;
  for (const PipelineGraph::Operation& operation : graph.operations()) {
    if (operation.encoder) continue;
    const std::size_t row = operation.row - first_row;
    const std::size_t chunk = row % chunks;
    const std::size_t kind = static_cast<std::size_t>(operation.pass.kind);
    Move move{.seconds = narrow(row * kKinds + kind),
              .previous = last[operation.device],
              .slot = operation.pass.slot};
    if (kind == kForward && chunk > 0) {
      move.input = done[(row - 1) * kKinds + kForward];
      move.delay = narrow(row - 1);
    } else if (kind == kBackward && chunk + 1 < chunks) {
      move.input = done[(row + 1) * kKinds + kBackward];
      move.delay = narrow(row);
    }
    move.takes_feeds = kind == kForward && chunk == 0;
    move.gives_gradient = kind == kBackward && chunk == 0;
    if (move.takes_feeds) ++taken;
    if (move.gives_gradient) taken_[move.slot] = taken;
    done[move.seconds] = last[operation.device] = static_cast<std::int32_t>(moves_.size());
    moves_.push_back(move);
  }
  for (const std::int32_t move : last) {
    if (move >= 0) last_moves_.push_back(narrow(static_cast<std::size_t>(move)));
  }
  return {};
}

void DecoupledStep::write(const DecoupledChoice& choice, std::size_t llm_slot) {
  SampleCost load;
  for (const std::uint32_t sample : choice.bins[llm_slot]) load += samples_[sample];
  const std::span<StagePass> passes(scratch_);
  llm_passes(*model_, load, passes);
  slow_down(passes, model_->llm, llm_slot / model_->microbatches);
  for (std::size_t c = 0; c < passes.size(); ++c) {
    const std::size_t row = llm_slot * passes.size() + c;
    double* const seconds = &llm_seconds_[row * kKinds];
    seconds[kForward] = passes[c].forward_s;
    seconds[kBackward] = split_ ? passes[c].backward_s : passes[c].backward_s + passes[c].weights_s;
    seconds[kWeights] = passes[c].weights_s;
    llm_delays_[row] = model_->llm.stages == 1 ? 0 : model_->link.seconds(passes[c].output_bytes);
    llm_bytes_[row] = passes[c].activation_bytes;
    llm_working_[row] = passes[c].working_bytes;
  }
}

void DecoupledStep::write_all(const DecoupledChoice& choice) {
  for (std::size_t llm_slot = 0; llm_slot < choice.bins.size(); ++llm_slot) write(choice, llm_slot);
}

// Appends samples, in the order in which the LLM needs them, to the open slot of their replica.
// Returns whether every replica has a slot.
bool DecoupledStep::fill_slots(const DecoupledChoice& choice) {
  std::fill(slot_count_.begin(), slot_count_.end(), 0);
  std::fill(open_.begin(), open_.end(), kNoInterval);
  std::fill(missing_.begin(), missing_.end(), 0);
  feeds_ = 0;
  for (std::size_t number = 0; number < choice.interval_of.size(); ++number) {
    const std::size_t llm_slot = llm_slot_of_number(*model_, number);
    const auto microbatch = narrow(number / model_->llm.replicas);
    for (const std::uint32_t sample : choice.bins[llm_slot]) {
      if (samples_[sample].encoder_units <= 0) continue;
      const std::uint32_t replica = choice.encoder_of[sample];
      if (open_[replica] != choice.interval_of[number]) {
        open_[replica] = choice.interval_of[number];
        Slot& fresh = slots_[replica * most_slots_ + slot_count_[replica]++];
        fresh.load = {};
        fresh.first = microbatch;
        fresh.transfers.clear();
      }
      Slot& slot = slots_[replica * most_slots_ + slot_count_[replica] - 1];
      slot.load += samples_[sample];
      slot.last = microbatch;
      if (slot.transfers.empty() || slot.transfers.back().llm_slot != llm_slot) {
        slot.transfers.push_back({narrow(llm_slot), 0});
        ++missing_[llm_slot];
        ++feeds_;
      }
      slot.transfers.back().delay += samples_[sample].llm_units;
    }
  }
  return std::find(slot_count_.begin(), slot_count_.end(), 0U) == slot_count_.end();
}

void DecoupledStep::price_slots() {
  const std::size_t stages = model_->encoder.stages;
  for (std::size_t e = 0; e < slot_count_.size(); ++e) {
    for (std::size_t s = 0; s < slot_count_[e]; ++s) {
      Slot& slot = slots_[e * most_slots_ + s];
      const std::span<StagePass> passes(&encoder_passes_[row(e, s, 0)], stages);
      encoder_passes(*model_, slot.load, passes);
      slow_down(passes, model_->encoder, e);
      slot.delay = stages == 1 ? 0 : model_->link.seconds(passes[0].output_bytes);
      for (Transfer& transfer : slot.transfers) {
        transfer.delay = model_->link.seconds(
            static_cast<std::int64_t>(transfer.delay * model_->feed_bytes_per_llm_unit));
      }
    }
  }
}

bool DecoupledStep::run_forward(std::size_t replica, std::size_t stage) {
  EncoderStage* const at = &stages_[replica * model_->encoder.stages];
  EncoderStage& mine = at[stage];
  const std::size_t s = mine.forward;
  if (stage > 0 && at[stage - 1].forward <= s) return false;
  const Slot& slot = slots_[replica * most_slots_ + s];
  const std::size_t here = row(replica, s, stage);
  const StagePass& pass = encoder_passes_[here];
  double start = s == 0 ? model_->encoder.transfers.gather.exposed_s(pass.forward_s) : mine.free_at;
  if (stage > 0) start = std::max(start, forward_ends_[here - 1] + slot.delay);
  mine.free_at = forward_ends_[here] = start + pass.forward_s;
  ++mine.forward;
  mine.held += pass.activation_bytes;
  count_excess(mine, pass);
  if (stage + 1 == model_->encoder.stages) {
    for (const Transfer& transfer : slot.transfers) {
      --missing_[transfer.llm_slot];
      ready_[transfer.llm_slot] =
          std::max(ready_[transfer.llm_slot], mine.free_at + transfer.delay);
    }
  }
  return true;
}

void DecoupledStep::count_excess(const EncoderStage& stage, const StagePass& pass) {
  if (caps_.encoder_bytes == 0) return;
  excess_ = std::max(excess_, stage.held + pass.working_bytes - caps_.encoder_bytes);
}

bool DecoupledStep::run_backward(std::size_t replica, std::size_t stage) {
  EncoderStage* const at = &stages_[replica * model_->encoder.stages];
  EncoderStage& mine = at[stage];
  const std::size_t s = mine.backward;
  const Slot& slot = slots_[replica * most_slots_ + s];
  const std::size_t here = row(replica, s, stage);
  double start = mine.free_at;
  if (stage + 1 < model_->encoder.stages) {
    if (at[stage + 1].backward <= s) return false;
    start = std::max(start, backward_ends_[here + 1] + slot.delay);
  } else {
    for (const Transfer& transfer : slot.transfers) {
      if (gradient_[transfer.llm_slot] < 0) return false;
      start = std::max(start, gradient_[transfer.llm_slot] + transfer.delay);
    }
  }
  const StagePass& pass = encoder_passes_[here];
  const double seconds = split_ ? pass.backward_s : pass.backward_s + pass.weights_s;
  mine.free_at = backward_ends_[here] = start + seconds;
  mine.last_pass_s = seconds;
  ++mine.backward;
  count_excess(mine, pass);
  if (!split_) mine.held -= pass.activation_bytes;
  if (split_ && s >= stage) run_weights(replica, stage);
  return true;
}

bool DecoupledStep::run_weights(std::size_t replica, std::size_t stage) {
  EncoderStage& mine = stages_[replica * model_->encoder.stages + stage];
  const StagePass& pass = encoder_passes_[row(replica, mine.weights++, stage)];
  mine.free_at += pass.weights_s;
  mine.last_pass_s = pass.weights_s;
  mine.held -= pass.activation_bytes;
  return true;
}

// Runs passes in the order of GraphBuilder::encoder_program until one has to wait. Returns whether
// a pass was run.
bool DecoupledStep::run_encoder_stage(std::size_t replica, std::size_t stage) {
  EncoderStage& mine = stages_[replica * model_->encoder.stages + stage];
  const std::uint32_t count = slot_count_[replica];
  const Slot* const slots = &slots_[replica * most_slots_];
  bool moved = false;
  while (mine.backward < count) {
    const std::size_t reach = taken_[slots[mine.backward].last] + (model_->encoder.stages - stage) +
                              model_->encoder_ahead;
    while (mine.target < count && slots[mine.target].first < reach) ++mine.target;
    mine.target = std::max(mine.target, mine.backward + 1);
    const bool ran =
        mine.forward < mine.target ? run_forward(replica, stage) : run_backward(replica, stage);
    if (!ran) return moved;
    moved = true;
  }
  while (split_ && mine.weights < count) moved = run_weights(replica, stage);
  return moved;
}

bool DecoupledStep::run_llm(std::size_t replica) {
  const std::size_t chunks = model_->llm.shares.size();
  const std::size_t first_llm_slot = replica * model_->microbatches;
  const double* const seconds = &llm_seconds_[first_llm_slot * chunks * kKinds];
  const double* const delays = &llm_delays_[first_llm_slot * chunks];
  double* const ends = &llm_ends_[replica * moves_.size()];
  std::size_t next = llm_next_[replica];
  const std::size_t started = next;
  for (; next < moves_.size(); ++next) {
    const Move& move = moves_[next];
    double start = move.previous < 0 ? model_->llm.transfers.gather.exposed_s(seconds[move.seconds])
                                     : ends[move.previous];
    if (move.input >= 0) start = std::max(start, ends[move.input] + delays[move.delay]);
    if (move.takes_feeds) {
      if (missing_[first_llm_slot + move.slot] > 0) break;
      start = std::max(start, ready_[first_llm_slot + move.slot]);
    }
    ends[next] = start + seconds[move.seconds];
    if (move.gives_gradient) gradient_[first_llm_slot + move.slot] = ends[next];
  }
  llm_next_[replica] = next;
  return next != started;
}

double DecoupledStep::last_end() const {
  double step_s = 0;
  for (const EncoderStage& stage : stages_) {
    const double exposed = model_->encoder.transfers.reduce.exposed_s(stage.last_pass_s);
    step_s = std::max(step_s, stage.free_at + exposed);
  }
  const std::size_t seconds_of_replica = model_->microbatches * model_->llm.shares.size() * kKinds;
  for (std::size_t r = 0; r < model_->llm.replicas; ++r) {
    for (const std::uint32_t move : last_moves_) {
      const double pass_s = llm_seconds_[r * seconds_of_replica + moves_[move].seconds];
      const double exposed = model_->llm.transfers.reduce.exposed_s(pass_s);
      step_s = std::max(step_s, llm_ends_[r * moves_.size() + move] + exposed);
    }
  }
  return step_s;
}

std::int64_t DecoupledStep::llm_excess() const {
  const std::size_t chunks = model_->llm.shares.size();
  const std::size_t freeing = split_ ? kWeights : kBackward;
  std::int64_t excess = 0;
  std::vector<std::int64_t> held(model_->llm.stages);
  for (std::size_t r = 0; r < model_->llm.replicas; ++r) {
    std::fill(held.begin(), held.end(), 0);
    for (const Move& move : moves_) {
      const std::size_t row = move.seconds / kKinds;
      const std::size_t of_all = r * model_->microbatches * chunks + row;
      const std::int64_t bytes = llm_bytes_[of_all];
      std::int64_t& now = held[row % chunks % model_->llm.stages];
      if (move.seconds % kKinds == kForward) now += bytes;
      excess = std::max(excess, now + llm_working_[of_all] - caps_.llm_bytes);
      if (move.seconds % kKinds == freeing) now -= bytes;
    }
  }
  return excess;
}

DecoupledScore DecoupledStep::evaluate(const DecoupledChoice& choice) {
  DecoupledScore score{.excess_bytes = std::numeric_limits<std::int64_t>::max(),
                       .step_s = std::numeric_limits<double>::infinity()};
  if (!fill_slots(choice)) return score;
  price_slots();
  std::fill(llm_next_.begin(), llm_next_.end(), 0);
  std::fill(ready_.begin(), ready_.end(), 0.0);
  std::fill(gradient_.begin(), gradient_.end(), -1.0);
  std::fill(stages_.begin(), stages_.end(), EncoderStage{});
  excess_ = 0;
  const std::size_t stages = model_->encoder.stages;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      moved = run_encoder_stage(i / stages, i % stages) || moved;
    }
    for (std::size_t r = 0; r < llm_next_.size(); ++r) moved = run_llm(r) || moved;
  }
  score.step_s = last_end();
  score.feeds = feeds_;
  score.excess_bytes = caps_.llm_bytes > 0 ? std::max(excess_, llm_excess()) : excess_;
  return score;
}

EncoderSlots DecoupledStep::slots(const DecoupledChoice& choice) const {
  EncoderSlots out(slot_count_.size());
  std::vector<std::uint32_t> open(out.size(), kNoInterval);
  for (std::size_t number = 0; number < choice.interval_of.size(); ++number) {
    for (const std::uint32_t sample : choice.bins[llm_slot_of_number(*model_, number)]) {
      if (samples_[sample].encoder_units <= 0) continue;
      const std::uint32_t replica = choice.encoder_of[sample];
      if (open[replica] != choice.interval_of[number]) out[replica].emplace_back();
      open[replica] = choice.interval_of[number];
      out[replica].back().push_back(sample);
    }
  }
  return out;
}

}  // namespace isocost
