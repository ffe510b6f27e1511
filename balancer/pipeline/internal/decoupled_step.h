#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline/decoupled_plan.h"
#include "balancer/pipeline/internal/pipeline_graph.h"
#include "balancer/pipeline/pipeline_model.h"

namespace isocost {

/// What a search over decoupled plans decides. Microbatch m of LLM replica r runs as number
/// m·replicas + r; an encoder slot holds those samples of a replica whose numbers lie in one
/// interval, so slots come in the order of the LLM's microbatches whatever a search changes.
struct DecoupledChoice {
  MicrobatchBins bins;
  std::vector<std::uint32_t> encoder_of;   ///< [samples]: the encoder replica.
  std::vector<std::uint32_t> interval_of;  ///< [numbers]: never descends.
};

inline std::size_t place_of_number(const PipelineModel& model, std::size_t number) {
  return number % model.llm.replicas * model.microbatches + number / model.llm.replicas;
}
inline std::size_t number_of_place(const PipelineModel& model, std::size_t place) {
  return place % model.microbatches * model.llm.replicas + place / model.microbatches;
}

/// First the bytes above the cap, then seconds, then transfers between encoder and LLM.
struct DecoupledScore {
  std::int64_t excess_bytes = 0;
  double step_s = 0;
  std::size_t feeds = 0;

  bool operator<(const DecoupledScore& other) const {
    if (excess_bytes != other.excess_bytes) return excess_bytes < other.excess_bytes;
    return step_s != other.step_s ? step_s < other.step_s : feeds < other.feeds;
  }
};

/// `simulate` for steps whose feeds change from look to look: the same seconds to the last bit,
/// without building a graph. `model` and `samples` stay with the caller.
class DecoupledStep {
 public:
  /// Errors: those of PipelineModel::validate and `simulate`.
  static Result<DecoupledStep> create(const PipelineModel& model,
                                      std::span<const SampleCost> samples,
                                      const ActivationCaps& caps);

  /// Takes in what a microbatch holds: after `choice.bins` has changed there.
  void write(const DecoupledChoice& choice, std::size_t place);
  void write_all(const DecoupledChoice& choice);
  /// The worst there is where an encoder replica has nothing to do.
  DecoupledScore look(const DecoupledChoice& choice);
  /// The slots of the last look's choice.
  EncoderSlots slots(const DecoupledChoice& choice) const;

  std::span<const SampleCost> samples() const { return samples_; }

 private:
  static constexpr std::size_t kKinds = PassTable::kKinds;

  /// An operation of an LLM replica's stages, in an order in which each follows what it waits for.
  struct Move {
    std::uint32_t seconds = 0;  ///< row × kinds + kind
    std::int32_t previous = -1;
    std::int32_t input = -1;
    std::uint32_t delay = 0;  ///< The row whose output travels.
    std::uint32_t slot = 0;
    bool takes_feeds = false;
    bool gives_gradient = false;
  };
  struct Transfer {
    std::uint32_t place = 0;
    double delay = 0;
  };
  struct Slot {
    SampleCost load;
    std::uint32_t first = 0;  ///< Microbatches that it feeds.
    std::uint32_t last = 0;
    std::vector<Transfer> transfers;
    double delay = 0;  ///< From stage to stage.
  };
  /// Where a stage of an encoder replica stands in its program.
  struct EncoderStage {
    std::uint32_t forward = 0;
    std::uint32_t backward = 0;
    std::uint32_t weights = 0;
    std::uint32_t target = 0;  ///< Forward passes before the next backward one.
    double free_at = 0;
    std::int64_t held = 0;
  };

  DecoupledStep(const PipelineModel& model, std::span<const SampleCost> samples,
                const ActivationCaps& caps)
      : model_(&model), samples_(samples), caps_(caps) {}

  Status learn_moves();
  bool fill_slots(const DecoupledChoice& choice);
  void price_slots();
  bool run_encoder_stage(std::size_t replica, std::size_t stage);
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
  std::vector<std::uint32_t> taken_;       ///< [microbatches]: see GraphBuilder::taken_before.
  std::vector<double> llm_seconds_;        ///< [places × chunks × kinds]
  std::vector<double> llm_delays_;         ///< [places × chunks]
  std::vector<std::int64_t> llm_bytes_;    ///< [places × chunks]
  std::vector<double> llm_ends_;           ///< [replicas × moves]
  std::vector<std::size_t> llm_next_;
  std::vector<double> ready_;     ///< [places]: when the feeds are there ...
  std::vector<int> missing_;      ///< ... and how many are not.
  std::vector<double> gradient_;  ///< [places], negative: not yet.

  std::size_t most_slots_ = 0;
  std::size_t feeds_ = 0;
  std::vector<Slot> slots_;                ///< [encoder replicas × most]
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
