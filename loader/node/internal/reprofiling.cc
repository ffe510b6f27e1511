#include "loader/node/internal/reprofiling.h"

#include <string>
#include <utility>

namespace isocost {
namespace {

// Most steps that an answer may take. Another drift within them is no reason to ask again, because
// all modules are measured together.
constexpr std::uint32_t kStepsForAnswer = 64;

}  // namespace

void Reprofiling::receive(ProfileReceived received) {
  const MutexLock lock(mutex_);
  received_ = std::move(received);
}

void Reprofiling::adopt_received() {
  std::optional<ProfileReceived> received;
  {
    const MutexLock lock(mutex_);
    received = std::exchange(received_, std::nullopt);
  }
  if (!received) return;
  const std::string name = "model profile of rank " + std::to_string(received->rank);
  if (steps_since_asked_ == 0) {
    log(log_, LogLevel::kWarning,
        name + " ignored: the node did not ask for one, and keeps the present profile");
    return;
  }
  steps_since_asked_ = 0;
  if (const Status adopted = model_.adopt(std::move(received->profile)); !adopted) {
    log(log_, LogLevel::kWarning,
        name + ": " + adopted.error().message() + "; the node keeps the present profile");
    return;
  }
  drifts_asked_ = 0;  // the new model counts its drifts from 0
  log(log_, LogLevel::kInfo,
      name + " adopted: the node plans with it, and correction starts from it");
}

bool Reprofiling::should_ask() {
  if (!allowed_) return false;
  const bool answer_expected = steps_since_asked_ > 0 && steps_since_asked_ < kStepsForAnswer;
  if (steps_since_asked_ > 0) ++steps_since_asked_;
  if (answer_expected) return false;
  const std::uint64_t drifts = model_.progress().correction.drifts;
  if (drifts <= drifts_asked_) return false;
  drifts_asked_ = drifts;
  steps_since_asked_ = 1;
  log(log_, LogLevel::kInfo, "asking rank 0 to measure a new model profile");
  return true;
}

}  // namespace isocost
