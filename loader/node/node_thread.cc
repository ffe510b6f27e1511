#include "loader/node/node_thread.h"

#include <stop_token>
#include <utility>

#include "base/thread_name.h"

namespace isocost {

NodeThread::NodeThread(std::unique_ptr<Node> node)
    : node_(std::move(node)), thread_([this](const std::stop_token& stop) {
        name_thread("isocost-node");
        Result<NodeSummary> outcome = node_->run(stop);
        const MutexLock lock(mutex_);
        outcome_ = std::move(outcome);
        ended_.notify_all();
      }) {}

NodeThread::~NodeThread() = default;

std::optional<Result<NodeSummary>> NodeThread::wait(std::chrono::milliseconds limit) {
  const MutexLock lock(mutex_);
  ended_.wait_for(mutex_, limit,
                  [this]() ISOCOST_REQUIRES(mutex_) { return outcome_.has_value(); });
  return outcome_;
}

Result<NodeSummary> NodeThread::stop(std::chrono::milliseconds grace) {
  if (!wait({})) node_->wait_until_left(grace);
  thread_.request_stop();
  {
    const MutexLock lock(mutex_);
    ended_.wait(mutex_, [this]() ISOCOST_REQUIRES(mutex_) { return outcome_.has_value(); });
    const bool stopped =
        outcome_ && !*outcome_ && outcome_->error().code() == ErrorCode::kCancelled;
    if (outcome_ && !stopped) return *outcome_;
  }
  return node_->summary();
}

}  // namespace isocost
