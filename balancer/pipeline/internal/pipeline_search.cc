#include "balancer/pipeline/internal/pipeline_search.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

namespace isocost {
namespace {

// Largest deterioration that is accepted when a search starts, as a share of the step divided by
// the square of the number of slots; none is at its end. With few microbatches each one weighs
// more.
constexpr double kFirstPipelineStepBack = 2.5;
constexpr std::size_t kMostOnStack = 32;  // passes that need no allocation

}  // namespace

Result<PipelineGroups> PipelineGroups::create(const PipelineModel& model) {
  ISOCOST_TRY(model.validate());
  PipelineGroups groups(model);
  const bool has_encoder = model.encoder.stages > 0;
  groups.groups_ =
      has_encoder ? std::gcd(model.encoder.replicas, model.llm.replicas) : model.llm.replicas;
  PipelineModel one = model;
  one.llm.slowdowns.clear();
  one.encoder.slowdowns.clear();
  one.llm.replicas /= groups.groups_;
  if (has_encoder) one.encoder.replicas /= groups.groups_;
  groups.shape_ = make_step(one, std::vector<SampleCost>(one.slots()));
  ISOCOST_ASSIGN(groups.graph_, PipelineGraph::build(groups.shape_));
  groups.index_rows();
  return groups;
}

void PipelineGroups::index_rows() {
  const PipelineStep& step = shape_;
  std::vector<std::size_t> first_encoder_row;
  std::size_t row = 0;
  for (const auto& passes : step.encoder.passes) {
    first_encoder_row.push_back(row);
    row += passes.size();
  }
  const std::size_t slots = step.llm.replicas() * model_.microbatches;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    llm_rows_.push_back(row + slot * step.llm.model_chunks());
  }
  encoder_rows_.resize(step.feeds.empty() ? 0 : slots);
  feeds_.resize(encoder_rows_.size());
  for (std::size_t i = 0; i < step.feeds.size(); ++i) {
    const Feed& feed = step.feeds[i];
    const std::size_t slot = feed.llm_replica * model_.microbatches + feed.microbatch;
    encoder_rows_[slot] = first_encoder_row[feed.encoder_replica] + feed.slot * step.encoder.stages;
    feeds_[slot] = i;
  }
}

void PipelineGroups::set(PassTable& table, std::size_t group, std::size_t slot,
                         const SampleCost& load) const {
  const std::size_t replica = global_slot(group, slot) / model_.microbatches;
  std::array<StagePass, kMostOnStack> few;
  std::vector<StagePass> many;
  const auto passes_of = [&](std::size_t chunks) {
    if (chunks <= few.size()) return std::span(few).first(chunks);
    many.resize(chunks);
    return std::span(many);
  };
  const auto keep = [&table](std::size_t row, std::span<const StagePass> passes) {
    for (const StagePass& pass : passes) table.set_row(row++, pass);
  };
  const auto llm = passes_of(shape_.llm.model_chunks());
  llm_passes(model_, load, llm);
  slow_down(llm, model_.llm, replica);
  keep(llm_rows_[slot], llm);
  if (encoder_rows_.empty()) return;
  const std::size_t number = slot % model_.microbatches * model_.llm.replicas + replica;
  const auto encoder = passes_of(shape_.encoder.stages);
  encoder_passes(model_, load, encoder);
  slow_down(encoder, model_.encoder, number % model_.encoder.replicas);
  keep(encoder_rows_[slot], encoder);
  table.set_feed(feeds_[slot],
                 static_cast<std::int64_t>(load.llm_units * model_.feed_bytes_per_llm_unit));
}

std::int64_t PipelineGroups::excess_bytes(const PassTable& table, const ActivationCaps& caps,
                                          std::vector<std::int64_t>& held) const {
  const PassKind freeing =
      model_.schedule == Schedule::kZbH1 ? PassKind::kWeights : PassKind::kBackward;
  held.assign(graph_.devices(), 0);
  std::int64_t excess = 0;
  for (const PipelineGraph::Operation& operation : graph_.operations()) {
    const StagePass& pass = table.rows()[operation.row];
    const std::int64_t bytes = pass.activation_bytes;
    const std::int64_t cap = operation.encoder ? caps.encoder_bytes : caps.llm_bytes;
    std::int64_t& now = held[operation.device];
    if (operation.pass.kind == PassKind::kForward) now += bytes;
    if (cap > 0) excess = std::max(excess, now + pass.working_bytes - cap);
    if (operation.pass.kind == freeing) now -= bytes;
  }
  return excess;
}

GroupSearch::GroupSearch(const PipelineGroups& groups, std::size_t group,
                         std::span<const SampleCost> samples, MicrobatchBins bins,
                         const ActivationCaps& caps)
    : groups_(&groups),
      group_(group),
      samples_(samples),
      caps_(caps),
      bins_(std::move(bins)),
      table_(groups.empty_table()),
      ends_(groups.graph().operations().size()) {
  write_all();
  score_ = evaluate();
}

void GroupSearch::write(std::size_t slot) {
  SampleCost load;
  for (const std::uint32_t sample : bins_[slot]) load += samples_[sample];
  groups_->set(table_, group_, slot, load);
}

void GroupSearch::write_all() {
  for (std::size_t slot = 0; slot < bins_.size(); ++slot) write(slot);
}

StepScore GroupSearch::evaluate() {
  StepScore score;
  score.step_s = groups_->graph().run(table_, ends_);
  if (caps_.any()) score.excess_bytes = groups_->excess_bytes(table_, caps_, held_);
  return score;
}

// Returns the step's score if it is not above `most`. Evaluates the decisive part first: a score
// without excess bytes can only be beaten by seconds.
std::optional<StepScore> GroupSearch::evaluate_within(const StepScore& most) {
  StepScore score;
  if (most.excess_bytes == 0) {
    score.step_s = groups_->graph().run(table_, ends_);
    if (score.step_s > most.step_s) return std::nullopt;
    if (caps_.any()) score.excess_bytes = groups_->excess_bytes(table_, caps_, held_);
  } else {
    score.excess_bytes = groups_->excess_bytes(table_, caps_, held_);
    if (score.excess_bytes > most.excess_bytes) return std::nullopt;
    score.step_s = groups_->graph().run(table_, ends_);
  }
  return most < score ? std::nullopt : std::optional(score);
}

void GroupSearch::offer(const MicrobatchBins& bins) {
  MicrobatchBins before = std::exchange(bins_, bins);
  write_all();
  const StepScore score = evaluate();
  if (score < score_) {
    score_ = score;
    return;
  }
  bins_ = std::move(before);
  write_all();
}

StepScore GroupSearch::replace(std::size_t slot, std::vector<std::uint32_t> samples) {
  bins_[slot] = std::move(samples);
  write(slot);
  return score_ = evaluate();
}

// Makes one random change between two slots. Returns false if it has no effect.
bool GroupSearch::change(bool move_samples, std::size_t a, std::size_t b, Random& random) {
  auto& from = bins_[a];
  auto& to = bins_[b];
  const std::uint64_t kind = move_samples ? random.below(5) : 0;
  if (kind == 0) {
    std::swap(from, to);
    return true;
  }
  const std::size_t i = random.below(from.size());
  if (kind <= 2) {
    if (from.size() == 1) return false;
    to.push_back(from[i]);
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
  } else {
    std::swap(from[i], to[random.below(to.size())]);
  }
  std::sort(from.begin(), from.end());
  std::sort(to.begin(), to.end());
  return true;
}

void GroupSearch::improve(std::int64_t evaluations, bool move_samples, Random& random) {
  if (bins_.size() < 2) return;
  StepScore best = score_;
  const auto slots = static_cast<double>(bins_.size());
  const double back = kFirstPipelineStepBack / (slots * slots);
  MicrobatchBins best_bins = bins_;
  for (std::int64_t done = 0; done < evaluations; ++done) {
    const std::size_t a = random.below(bins_.size());
    const std::size_t b = (a + 1 + random.below(bins_.size() - 1)) % bins_.size();
    std::vector<std::uint32_t> before_a = bins_[a];
    std::vector<std::uint32_t> before_b = bins_[b];
    if (!change(move_samples, a, b, random)) continue;
    write(a);
    write(b);
    const double left = 1 - static_cast<double>(done) / static_cast<double>(evaluations);
    const double allowed = score_.step_s + best.step_s * back * left * left * random.uniform();
    const std::optional<StepScore> found = evaluate_within({score_.excess_bytes, allowed});
    if (found) {
      const StepScore score = *found;
      score_ = score;
      if (score < best) {
        best = score;
        best_bins = bins_;
      }
      continue;
    }
    bins_[a] = std::move(before_a);
    bins_[b] = std::move(before_b);
    write(a);
    write(b);
  }
  bins_ = std::move(best_bins);
  write_all();
  score_ = best;
}

}  // namespace isocost
