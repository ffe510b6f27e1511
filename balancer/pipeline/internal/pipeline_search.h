#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "balancer/pipeline/internal/pipeline_graph.h"
#include "balancer/pipeline/pipeline_model.h"
#include "base/random.h"

namespace isocost {

/// Divides pipelines into groups that never wait for each other: microbatch number m·L + r of L LLM
/// replicas and E encoder replicas belongs to group (number mod gcd(E, L)). All groups have the
/// same shape and share one graph; only their stages' slowdowns differ.
class PipelineGroups {
 public:
  /// Creates the groups. Errors: those of PipelineModel::validate and `simulate`.
  static Result<PipelineGroups> create(const PipelineModel& model);

  std::size_t count() const { return groups_; }
  /// Returns the number of microbatches of a group.
  std::size_t slots() const { return llm_rows_.size(); }
  /// Returns the slot of the whole step (in the order of MicrobatchBins) of a group's slot.
  std::size_t global_slot(std::size_t group, std::size_t slot) const {
    const std::size_t replica = group + groups_ * (slot / model_.microbatches);
    return replica * model_.microbatches + slot % model_.microbatches;
  }
  const PipelineModel& model() const { return model_; }
  const PipelineGraph& graph() const { return graph_; }

  PassTable empty_table() const { return PassTable(shape_); }
  /// Writes the passes of the microbatch in a group's slot.
  void set(PassTable& table, std::size_t group, std::size_t slot, const SampleCost& load) const;
  /// Returns the bytes by which the worst stage exceeds its cap. `held` is scratch.
  std::int64_t excess_bytes(const PassTable& table, const ActivationCaps& caps,
                            std::vector<std::int64_t>& held) const;

 private:
  explicit PipelineGroups(const PipelineModel& model) : model_(model) {}
  void index_rows();

  PipelineModel model_;
  std::size_t groups_ = 1;
  PipelineStep shape_;  ///< Shape of one group, all seconds 0.
  PipelineGraph graph_;
  std::vector<std::size_t> llm_rows_;      ///< [slots]: first table row.
  std::vector<std::size_t> encoder_rows_;  ///< [slots], empty without encoder stages.
  std::vector<std::size_t> feeds_;         ///< [slots]
};

/// Score of a step: first the bytes above the cap, then seconds. Smaller is better.
struct StepScore {
  std::int64_t excess_bytes = 0;
  double step_s = 0;
  bool operator<(const StepScore& other) const {
    return excess_bytes != other.excess_bytes ? excess_bytes < other.excess_bytes
                                              : step_s < other.step_s;
  }
};

/// Holds one group's microbatches and searches for a better division and order of them.
class GroupSearch {
 public:
  /// `groups` and `samples` belong to the caller and must outlive this object.
  GroupSearch(const PipelineGroups& groups, std::size_t group, std::span<const SampleCost> samples,
              MicrobatchBins bins, const ActivationCaps& caps);

  const MicrobatchBins& bins() const { return bins_; }
  const StepScore& score() const { return score_; }

  /// Adopts `bins` if their score is better.
  void offer(const MicrobatchBins& bins);
  /// Improves the bins by local search with up to `evaluations` simulator evaluations: swaps of
  /// microbatches and, with `move_samples`, moves and swaps of samples between two microbatches.
  /// Small deteriorations are accepted at first; the search ends with the best bins that it saw.
  void improve(std::int64_t evaluations, bool move_samples, Random& random);
  /// Replaces one microbatch's samples and returns the new score. The caller can restore the old
  /// samples with a second call.
  StepScore replace(std::size_t slot, std::vector<std::uint32_t> samples);

 private:
  void write(std::size_t slot);
  void write_all();
  StepScore evaluate();
  std::optional<StepScore> evaluate_within(const StepScore& most);
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
