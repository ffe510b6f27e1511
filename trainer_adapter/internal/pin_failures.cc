#include "trainer_adapter/internal/pin_failures.h"

#include <utility>

#include "base/mutex.h"

namespace isocost {

struct PinFailures::State {
  Mutex mutex;
  std::optional<std::string> waiting ISOCOST_GUARDED_BY(mutex);
  bool found ISOCOST_GUARDED_BY(mutex) = false;
};

PinFailures::PinFailures() : state_(std::make_shared<State>()) {}

std::function<bool()> PinFailures::watch(std::function<Status()> pin) const {
  return [pin = std::move(pin), state = state_] {
    const Status pinned = pin();
    if (pinned) return true;
    if (pinned.error().code() == ErrorCode::kNotFound) return false;
    const MutexLock lock(state->mutex);
    if (!std::exchange(state->found, true)) state->waiting = pinned.error().message();
    return false;
  };
}

std::optional<std::string> PinFailures::take() {
  const MutexLock lock(state_->mutex);
  return std::exchange(state_->waiting, std::nullopt);
}

}  // namespace isocost
