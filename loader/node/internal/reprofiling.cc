#include "loader/node/internal/reprofiling.h"

#include <string>
#include <utility>

namespace isocost {
namespace {

// While an answer may be on its way another drift is no reason to ask again: modules change
// together, and are measured together.
constexpr std::uint32_t kPatience = 64;  // steps

}  // namespace

void Reprofiling::offer(ProfileReceived came) {
  const MutexLock lock(mutex_);
  offered_ = std::move(came);
}

void Reprofiling::take_offered() {
  std::optional<ProfileReceived> came;
  {
    const MutexLock lock(mutex_);
    came = std::exchange(offered_, std::nullopt);
  }
  if (!came) return;
  const std::string from = "rank " + std::to_string(came->rank) + "'s new profile";
  if (asked_ago_ == 0) {
    log(log_, LogLevel::kWarning, from + " came unasked; the old one stays");
    return;
  }
  asked_ago_ = 0;
  if (const Status adopted = model_.adopt(std::move(came->profile)); !adopted) {
    log(log_, LogLevel::kWarning, from + ": " + adopted.error().message() + "; the old one stays");
    return;
  }
  drifts_ = 0;  // the new model counts anew
  log(log_, LogLevel::kInfo, from + " is in use; what was learned on the old one is forgotten");
}

bool Reprofiling::ask() {
  if (!allowed_) return false;
  const bool is_awaited = asked_ago_ > 0 && asked_ago_ < kPatience;
  if (asked_ago_ > 0) ++asked_ago_;
  if (is_awaited) return false;
  const std::uint64_t drifts = model_.progress().correction.drifts;
  if (drifts <= drifts_) return false;
  drifts_ = drifts;
  asked_ago_ = 1;
  log(log_, LogLevel::kInfo, "the model has changed: rank 0 is asked to measure its profile again");
  return true;
}

}  // namespace isocost
