#include "trainer_adapter/trained_steps.h"

#include <cstddef>

#include "transport/wire/position_text.h"

namespace isocost {
namespace {

// States of the cost model that are kept while nothing is trained; one comes every eighth step.
constexpr std::size_t kMostCostModelStates = 8;

}  // namespace

void TrainedSteps::hand_out(const OrderedMicrobatch& microbatch, std::string cost_model_state) {
  handed_out_ = microbatch.position;
  if (microbatch.last_of_step) {
    whole_step_ = microbatch.position;
    ++steps_since_told_;
  }
  if (cost_model_state.empty()) return;
  cost_model_states_.emplace_back(microbatch.position, std::move(cost_model_state));
  if (cost_model_states_.size() > kMostCostModelStates) cost_model_states_.pop_front();
}

void TrainedSteps::end_epoch(std::uint32_t epoch) {
  ended_ = epoch;
  last_before_end_ = handed_out_;
}

Status TrainedSteps::train(const OrderedMicrobatch& microbatch) {
  ISOCOST_TRY(check_handed_out(microbatch));
  steps_since_told_ = 0;
  if (now_.trained && microbatch.position <= *now_.trained) return {};
  const StartPoint state = following(microbatch);
  while (now_.trained && !cost_model_states_.empty() &&
         cost_model_states_.front().first <= *now_.trained) {
    cost_model_states_.pop_front();
  }
  before_ = std::exchange(now_, Progress{state, microbatch.position});
  return {};
}

void TrainedSteps::revoke(const Position& position) {
  if (now_.trained != position || !before_) return;
  now_ = *before_;
  before_.reset();
}

Result<StartPoint> TrainedSteps::state() const {
  const bool told = now_.trained && steps_since_told_ < kMostAhead;
  if (told || !whole_step_) return past_end(now_.state, now_.trained);
  return Error(ErrorCode::kInvalidArgument,
               "the loop has not said what it trained" +
                   (now_.trained ? " since " + text_of(*now_.trained) : std::string()) +
                   ", though " + text_of(*whole_step_) +
                   " was handed out: a state might name a step that is not trained");
}

Result<StartPoint> TrainedSteps::state_after(const OrderedMicrobatch& microbatch) const {
  ISOCOST_TRY(check_handed_out(microbatch));
  return past_end(following(microbatch), microbatch.position);
}

Status TrainedSteps::check_handed_out(const OrderedMicrobatch& microbatch) const {
  if (handed_out_ && microbatch.position <= *handed_out_) return {};
  return Error(ErrorCode::kInvalidArgument,
               text_of(microbatch.position) + " was not handed out since this iteration began; " +
                   (handed_out_ ? "the last is " + text_of(*handed_out_) : "none was"));
}

StartPoint TrainedSteps::following(const OrderedMicrobatch& microbatch) const {
  const Position& at = microbatch.position;
  StartPoint state = now_.state;
  state.epoch = at.epoch;
  state.step = at.step;
  state.cost_model_state = cost_model_state_at(at);
  if (microbatch.last_of_epoch) {
    state.epoch += 1;
    state.step = 0;
  } else if (microbatch.last_of_step) {
    state.step += 1;
  }
  return state;
}

// Returns the state, which is the next epoch's first if the loop has learned that nothing more
// comes of this one: all samples of its further steps were bad.
StartPoint TrainedSteps::past_end(StartPoint state, const std::optional<Position>& trained) const {
  const bool is_over = ended_ && *ended_ >= state.epoch &&
                       (!last_before_end_ || (trained && *trained >= *last_before_end_));
  if (!is_over) return state;
  state.epoch = *ended_ + 1;
  state.step = 0;
  return state;
}

// Returns the last state that came with this microbatch or before it.
std::string TrainedSteps::cost_model_state_at(const Position& position) const {
  std::string latest = now_.state.cost_model_state;
  for (const auto& [at, state] : cost_model_states_) {
    if (at <= position) latest = state;
  }
  return latest;
}

}  // namespace isocost
