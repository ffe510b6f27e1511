#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "balancer/pipeline/internal/pipeline_graph.h"
#include "balancer/pipeline/pipeline_model.h"
#include "base/random.h"

namespace isocost {

/// Pipelines fall into groups that never wait for each other: microbatch number m·L + r of L LLM
/// replicas and E encoder replicas belongs to group (number mod gcd(E, L)). All groups have one
/// shape, so one graph serves them all; their stages' slowdowns differ.
class PipelineGroups {
 public:
  /// Errors: those of PipelineModel::validate and `simulate`.
  static Result<PipelineGroups> create(const PipelineModel& model);

  std::size_t count() const { return groups_; }
  /// Microbatches of a group.
  std::size_t places() const { return llm_rows_.size(); }
  /// A group's place (replica by replica, as MicrobatchBins) as a place of the whole step.
  std::size_t global_place(std::size_t group, std::size_t place) const {
    const std::size_t replica = group + groups_ * (place / model_.microbatches);
    return replica * model_.microbatches + place % model_.microbatches;
  }
  const PipelineModel& model() const { return model_; }
  const PipelineGraph& graph() const { return graph_; }

  PassTable empty_table() const { return PassTable(shape_); }
  /// Writes the passes of the microbatch at a group's place.
  void set(PassTable& table, std::size_t group, std::size_t place, const SampleCost& load) const;
  /// Bytes by which the worst stage is above its cap. `held` is scratch.
  std::int64_t excess_bytes(const PassTable& table, const ActivationCaps& caps,
                            std::vector<std::int64_t>& held) const;

 private:
  explicit PipelineGroups(const PipelineModel& model) : model_(model) {}
  void number_places();

  PipelineModel model_;
  std::size_t groups_ = 1;
  PipelineStep shape_;  ///< One group's, seconds all zero.
  PipelineGraph graph_;
  std::vector<std::size_t> llm_rows_;      ///< [places]: first table row.
  std::vector<std::size_t> encoder_rows_;  ///< [places], empty without encoder stages.
  std::vector<std::size_t> feeds_;         ///< [places]
};

/// A step's quality: first the bytes above the cap, then its seconds.
struct StepScore {
  std::int64_t excess_bytes = 0;
  double step_s = 0;
  bool operator<(const StepScore& other) const {
    return excess_bytes != other.excess_bytes ? excess_bytes < other.excess_bytes
                                              : step_s < other.step_s;
  }
};

/// One group's microbatches, and the search for a better division and order of them.
class GroupSearch {
 public:
  /// `groups` and `samples` stay with the caller.
  GroupSearch(const PipelineGroups& groups, std::size_t group, std::span<const SampleCost> samples,
              MicrobatchBins bins, const ActivationCaps& caps);

  const MicrobatchBins& bins() const { return bins_; }
  const StepScore& score() const { return score_; }

  /// Takes `bins` where they are better; true then.
  bool offer(const MicrobatchBins& bins);
  /// Local search with so many looks at the simulator: swaps of microbatches, and with
  /// `move_samples` moves and swaps of samples between two. Small steps back are allowed at first;
  /// ends with the best seen.
  void improve(std::int64_t evaluations, bool move_samples, Random& random);
  /// Changes one microbatch's samples and looks at the step; `bins()` of before are the caller's to
  /// put back.
  StepScore replace(std::size_t place, std::vector<std::uint32_t> samples);

 private:
  void write(std::size_t place);
  void write_all();
  StepScore look();
  std::optional<StepScore> look_within(const StepScore& most);
  bool change(bool move_samples, std::size_t a, std::size_t b, Random& random);

  const PipelineGroups* groups_;
  std::size_t group_;
  std::span<const SampleCost> samples_;
  ActivationCaps caps_;
  MicrobatchBins bins_;
  PassTable table_;
  std::vector<double> ends_;
  std::vector<std::int64_t> held_;
  StepScore score_;
};

}  // namespace isocost
