#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline/decoupled_plan.h"
#include "balancer/pipeline/internal/pipeline_graph.h"
#include "balancer/pipeline/pipeline_model.h"

namespace isocost {

/// The decisions of a search over decoupled plans. Microbatch m of LLM replica r has the number
/// m·replicas + r. An encoder slot holds the samples of its replica whose numbers lie in one
/// interval, so slots follow the order of the LLM's microbatches by construction.
///
/// An LLM slot is an index into MicrobatchBins (replica by replica); a number is the same
/// microbatch in running order.
struct DecoupledChoice {
  MicrobatchBins bins;
  std::vector<std::uint32_t> encoder_of;   ///< [samples]: encoder replica.
  std::vector<std::uint32_t> interval_of;  ///< [numbers]: interval of each, not descending.
};

inline std::size_t llm_slot_of_number(const PipelineModel& model, std::size_t number) {
  return number % model.llm.replicas * model.microbatches + number / model.llm.replicas;
}
inline std::size_t number_of_llm_slot(const PipelineModel& model, std::size_t llm_slot) {
  return llm_slot % model.microbatches * model.llm.replicas + llm_slot / model.microbatches;
}

/// Score of a decoupled plan: first the bytes above the cap, then seconds, then the number of
/// transfers between encoder and LLM. Smaller is better.
struct DecoupledScore {
  std::int64_t excess_bytes = 0;
  double step_s = 0;
  std::size_t feeds = 0;

  bool operator<(const DecoupledScore& other) const {
    if (excess_bytes != other.excess_bytes) return excess_bytes < other.excess_bytes;
    return step_s != other.step_s ? step_s < other.step_s : feeds < other.feeds;
  }
};

/// Computes `simulate` for steps whose feeds change from one evaluation to the next: the seconds
/// are equal to the last bit, but no graph is built. `model` and `samples` belong to the caller and
/// must outlive this object.
class DecoupledStep {
 public:
  /// Creates the object. Errors: those of PipelineModel::validate and `simulate`.
  static Result<DecoupledStep> create(const PipelineModel& model,
                                      std::span<const SampleCost> samples,
                                      const ActivationCaps& caps);

  /// Updates the passes of one microbatch after `choice.bins` has changed there.
  void write(const DecoupledChoice& choice, std::size_t llm_slot);
  void write_all(const DecoupledChoice& choice);
  /// Simulates the step and returns its score; the worst possible score if an encoder replica has
  /// no work.
  DecoupledScore evaluate(const DecoupledChoice& choice);
  /// Returns the encoder slots of the choice that was evaluated last.
  EncoderSlots slots(const DecoupledChoice& choice) const;

  std::span<const SampleCost> samples() const { return samples_; }

 private:
  static constexpr std::size_t kKinds = PassTable::kKinds;

  /// One pass of an LLM stage. Moves are ordered such that each follows the moves it waits for.
  struct Move {
    std::uint32_t seconds = 0;  ///< row × kinds + kind
    std::int32_t previous = -1;
    std::int32_t input = -1;
    std::uint32_t delay = 0;  ///< Row whose output is transferred.
    std::uint32_t slot = 0;
    bool takes_feeds = false;
    bool gives_gradient = false;
  };
  struct Transfer {
    std::uint32_t llm_slot = 0;
    double delay = 0;
  };
  struct Slot {
    SampleCost load;
    std::uint32_t first = 0;  ///< First and last microbatch that it feeds.
    std::uint32_t last = 0;
    std::vector<Transfer> transfers;
    double delay = 0;  ///< Transfer from stage to stage.
  };
  /// Progress of an encoder stage in its program.
  struct EncoderStage {
    std::uint32_t forward = 0;
    std::uint32_t backward = 0;
    std::uint32_t weights = 0;
    std::uint32_t target = 0;  ///< Forward passes that precede the next backward pass.
    double free_at = 0;
    double last_pass_s = 0;
    std::int64_t held = 0;
  };

  DecoupledStep(const PipelineModel& model, std::span<const SampleCost> samples,
                const ActivationCaps& caps)
      : model_(&model), samples_(samples), caps_(caps) {}

  Status learn_moves();
  bool fill_slots(const DecoupledChoice& choice);
  void price_slots();
  bool run_encoder_stage(std::size_t replica, std::size_t stage);
  void count_excess(const EncoderStage& stage, const StagePass& pass);
  bool run_forward(std::size_t replica, std::size_t stage);
  bool run_backward(std::size_t replica, std::size_t stage);
  bool run_weights(std::size_t replica, std::size_t stage);
  bool run_llm(std::size_t replica);
  double last_end() const;
  std::int64_t llm_excess() const;

  std::size_t row(std::size_t replica, std::size_t slot, std::size_t stage) const {
    return (replica * most_slots_ + slot) * model_->encoder.stages + stage;
  }

  const PipelineModel* model_;
  std::span<const SampleCost> samples_;
  ActivationCaps caps_;
  bool split_ = false;

  std::vector<Move> moves_;
  std::vector<std::uint32_t> last_moves_;  ///< [LLM stages]
  std::vector<std::uint32_t> taken_;       ///< [microbatches]: see taken_before.
  std::vector<double> llm_seconds_;        ///< [LLM slots × chunks × kinds]
  std::vector<double> llm_delays_;         ///< [LLM slots × chunks]
  std::vector<std::int64_t> llm_bytes_;    ///< [LLM slots × chunks]
  std::vector<std::int64_t> llm_working_;  ///< [LLM slots × chunks]
  std::vector<double> llm_ends_;           ///< [replicas × moves]
  std::vector<std::size_t> llm_next_;
  std::vector<double> ready_;     ///< [LLM slots]: arrival of the latest feed.
  std::vector<int> missing_;      ///< [LLM slots]: feeds that have not arrived.
  std::vector<double> gradient_;  ///< [LLM slots]: end of the gradient; negative: not computed yet.

  std::size_t most_slots_ = 0;
  std::size_t feeds_ = 0;
  std::vector<Slot> slots_;                ///< [encoder replicas × most_slots_]
  std::vector<std::uint32_t> slot_count_;  ///< [encoder replicas]
  std::vector<std::uint32_t> open_;        ///< [encoder replicas]: interval of the last slot
  std::vector<StagePass> encoder_passes_;  ///< [rows]
  std::vector<double> forward_ends_;       ///< [rows]
  std::vector<double> backward_ends_;      ///< [rows]
  std::vector<EncoderStage> stages_;       ///< [encoder replicas × stages]
  std::int64_t excess_ = 0;
  std::vector<StagePass> scratch_;
};

}  // namespace isocost
