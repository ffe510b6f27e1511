// The encoder stage: encodes pixels and mels, and sends each LLM microbatch the rows that it needs.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "balancer/pipeline/schedule.h"
#include "examples/pipeline_trainer/routing.h"
#include "examples/pipeline_trainer/stage.h"

namespace isocost {
namespace {

class EncoderStage final : public Stage {
 public:
  explicit EncoderStage(const StageParts& parts) : parts_(parts) {}

  Result<StageWorked> run_step() override {
    worked_ = {};
    ISOCOST_ASSIGN(const MicrobatchHeader* first, parts_.stream.peek());
    const std::uint32_t slots = first->microbatches;
    ISOCOST_ASSIGN(const auto taken,
                   taken_before(parts_.layout.schedule, parts_.layout.llm.pipeline, /*chunks=*/1,
                                parts_.layout.microbatches));
    std::uint32_t forward = 0;
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      if (forward == slot) ISOCOST_TRY(run_forward(forward++));
      // Run ahead as far as the LLM must get before it returns this slot's gradients, and one
      // microbatch further so that its first stage need not wait. The layout may add to that.
      const std::size_t reach =
          taken.at(in_flight_.at(slot).last_microbatch) + 1 + parts_.layout.encoder_ahead;
      while (forward < slots) {
        ISOCOST_ASSIGN(const MicrobatchHeader* next, parts_.stream.peek());
        if (first_needed(*next) >= reach) break;
        ISOCOST_TRY(run_forward(forward++));
      }
      ISOCOST_TRY(run_backward(slot));
    }
    return worked_;
  }

 private:
  struct InFlight {
    TorchMicrobatch microbatch;
    std::vector<Exchange> exchanges;
    EncoderRows rows;
    std::uint32_t last_microbatch = 0;  ///< The last LLM microbatch that reads from it.
    SecondsByModule seconds = kNoSeconds;
    double forward_s = 0;  ///< The part of `seconds` spent in forward.
  };

  // Returns the first LLM microbatch that reads from this one.
  static std::uint32_t first_needed(const MicrobatchHeader& header) {
    if (header.routes.empty()) return 0;
    const auto sooner = [](const Route& a, const Route& b) { return a.microbatch < b.microbatch; };
    return std::min_element(header.routes.begin(), header.routes.end(), sooner)->microbatch;
  }

  std::size_t receiver(const Exchange& exchange) const {
    return receiver_at(parts_.layout, LayoutModule::kLlm, exchange.replica, 0);
  }

  torch::Tensor& rows_of(InFlight& at, CostModule module) const {
    return at.rows.at(static_cast<std::size_t>(module));
  }

  void encode_media(InFlight& at) {
    if (at.microbatch.contains("vision_patches")) {
      const Timed timed(at.seconds, CostModule::kVision);
      rows_of(at, CostModule::kVision) = parts_.model.model()->vision->forward(at.microbatch);
    }
    if (at.microbatch.contains("audio_mel")) {
      const Timed timed(at.seconds, CostModule::kAudio);
      rows_of(at, CostModule::kAudio) = parts_.model.model()->audio->forward(at.microbatch);
    }
  }

  Status run_forward(std::uint32_t slot) {
    InFlight at;
    ISOCOST_ASSIGN(at.microbatch, parts_.stream.take());
    ISOCOST_ASSIGN(at.exchanges, exchanges_of(at.microbatch.header, Side::kEncoder));
    encode_media(at);
    for (const Exchange& exchange : at.exchanges) {
      at.last_microbatch = std::max(at.last_microbatch, exchange.microbatch);
      ISOCOST_TRY(parts_.links.send(gather(exchange, at.rows).detach(), receiver(exchange),
                                    {slot, exchange.microbatch}));
    }
    at.forward_s = total(at.seconds);
    in_flight_[slot] = std::move(at);
    return {};
  }

  Status run_backward(std::uint32_t slot) {
    InFlight at = std::move(in_flight_.extract(slot).mapped());
    EncoderRows gradients = empty_rows(at.exchanges, parts_.width, parts_.dtype);
    for (const Exchange& exchange : at.exchanges) {
      ISOCOST_ASSIGN(const torch::Tensor message,
                     parts_.links.receive({exchange.rows, parts_.width}, parts_.dtype,
                                          receiver(exchange), {exchange.microbatch, slot}));
      scatter(exchange, message, gradients);
    }
    for (const CostModule module : {CostModule::kVision, CostModule::kAudio}) {
      if (!rows_of(at, module).defined()) continue;
      const Timed timed(at.seconds, module);
      rows_of(at, module).backward(gradients.at(static_cast<std::size_t>(module)));
    }
    worked_.busy_s += total(at.seconds);
    return parts_.stream.report(at.microbatch, at.seconds, at.forward_s);
  }

  StageParts parts_;
  std::map<std::uint32_t, InFlight> in_flight_;
  StageWorked worked_;
};

}  // namespace

std::unique_ptr<Stage> make_encoder_stage(const StageParts& parts) {
  return std::make_unique<EncoderStage>(parts);
}

}  // namespace isocost
