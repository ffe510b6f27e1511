// A stage of the LLM. Each runs some of the layers; the first also embeds tokens and media, and the
// last predicts tokens.

#include <map>
#include <utility>
#include <vector>

#include "balancer/pipeline/schedule.h"
#include "examples/pipeline_trainer/routing.h"
#include "examples/pipeline_trainer/stage.h"

namespace isocost {
namespace {

class LlmStage final : public Stage {
 public:
  explicit LlmStage(const StageParts& parts)
      : parts_(parts),
        layers_(layers_of_stage(parts.model.model()->llm->layers(), parts.layout.llm.pipeline,
                                parts.place.stage)) {}

  Result<StageWorked> run_step() override {
    worked_ = {};
    ISOCOST_ASSIGN(const MicrobatchHeader* first, parts_.stream.peek());
    ISOCOST_ASSIGN(const auto program,
                   stage_program(parts_.layout.schedule, stages(), parts_.place.stage,
                                 /*chunks=*/1, first->microbatches, /*held_back=*/0));
    for (const Pass& pass : program) {
      ISOCOST_TRY(pass.kind == PassKind::kForward ? run_forward(pass.slot)
                                                  : run_backward(pass.slot));
    }
    return worked_;
  }

 private:
  struct InFlight {
    TorchMicrobatch microbatch;
    std::vector<Exchange> exchanges;  ///< In the first stage.
    EncoderRows media;                ///< In the first stage.
    torch::Tensor input;              ///< In the other stages.
    torch::Tensor output;             ///< Rows for the next stage, or the loss.
    SecondsByModule seconds = kNoSeconds;
    double forward_s = 0;  ///< The part of `seconds` spent in forward.
  };

  std::size_t stages() const { return parts_.layout.llm.pipeline; }
  bool is_first() const { return parts_.place.stage == 0; }
  bool is_last() const { return parts_.place.stage + 1 == stages(); }
  std::size_t neighbour(int step) const {
    return receiver_at(parts_.layout, LayoutModule::kLlm, parts_.place.data,
                       parts_.place.stage + static_cast<std::size_t>(step));
  }
  std::size_t encoder(const Exchange& exchange) const {
    return receiver_at(parts_.layout, LayoutModule::kEncoder, exchange.replica, 0);
  }

  Status receive_media(std::uint32_t slot, InFlight& at) {
    ISOCOST_ASSIGN(at.exchanges, exchanges_of(at.microbatch.header, Side::kLlm));
    at.media = empty_rows(at.exchanges, parts_.width, parts_.dtype);
    for (const Exchange& exchange : at.exchanges) {
      ISOCOST_ASSIGN(const torch::Tensor message,
                     parts_.links.receive({exchange.rows, parts_.width}, parts_.dtype,
                                          encoder(exchange), {exchange.microbatch, slot}));
      scatter(exchange, message, at.media);
    }
    for (torch::Tensor& rows : at.media) {
      if (rows.defined()) rows.set_requires_grad(true);
    }
    return {};
  }

  Status receive_input(std::uint32_t slot, InFlight& at) {
    const auto rows = at.microbatch["lengths"].sum().item<std::int64_t>();
    ISOCOST_ASSIGN(at.input, parts_.links.receive({rows, parts_.width}, parts_.dtype, neighbour(-1),
                                                  {slot, slot}));
    at.input.set_requires_grad(true);
    return {};
  }

  void compute(InFlight& at) {
    const Timed timed(at.seconds, CostModule::kLlm);
    LanguageModel& llm = parts_.model.model()->llm;
    const auto media = [&](CostModule module) {
      return at.media.at(static_cast<std::size_t>(module));
    };
    const torch::Tensor rows = is_first() ? llm->embed(at.microbatch, media(CostModule::kVision),
                                                       media(CostModule::kAudio))
                                          : at.input;
    at.output = llm->run_layers(rows, at.microbatch, layers_.first, layers_.end);
    if (!is_last()) return;
    at.output = token_loss(llm->predict(at.output), at.microbatch);
    worked_.loss += at.output.item<double>();
  }

  Status run_forward(std::uint32_t slot) {
    InFlight at;
    ISOCOST_ASSIGN(at.microbatch, parts_.stream.take());
    ISOCOST_TRY(is_first() ? receive_media(slot, at) : receive_input(slot, at));
    compute(at);
    if (!is_last()) {
      ISOCOST_TRY(parts_.links.send(at.output.detach(), neighbour(1), {slot, slot}));
    }
    at.forward_s = total(at.seconds);
    in_flight_[slot] = std::move(at);
    return {};
  }

  Status run_backward(std::uint32_t slot) {
    InFlight at = std::move(in_flight_.extract(slot).mapped());
    torch::Tensor gradient;  // undefined for the loss, whose gradient is one
    if (!is_last()) {
      ISOCOST_ASSIGN(gradient, parts_.links.receive(at.output.sizes(), parts_.dtype, neighbour(1),
                                                    {slot, slot}));
    }
    {
      const Timed timed(at.seconds, CostModule::kLlm);
      at.output.backward(gradient);
    }
    worked_.busy_s += total(at.seconds);
    ISOCOST_TRY(send_back(slot, at));
    return parts_.stream.report(at.microbatch, at.seconds, at.forward_s);
  }

  Status send_back(std::uint32_t slot, const InFlight& at) {
    if (!is_first()) return parts_.links.send(at.input.grad(), neighbour(-1), {slot, slot});
    EncoderRows gradients;
    for (std::size_t m = 0; m < kModules; ++m) {
      if (at.media.at(m).defined()) gradients.at(m) = at.media.at(m).grad();
    }
    for (const Exchange& exchange : at.exchanges) {
      ISOCOST_TRY(parts_.links.send(gather(exchange, gradients), encoder(exchange),
                                    {slot, exchange.microbatch}));
    }
    return {};
  }

  StageParts parts_;
  LayerRange layers_;
  std::map<std::uint32_t, InFlight> in_flight_;
  StageWorked worked_;
};

}  // namespace

std::unique_ptr<Stage> make_llm_stage(const StageParts& parts) {
  return std::make_unique<LlmStage>(parts);
}

}  // namespace isocost
