#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"
#include "loader/node/node.h"

namespace isocost {

/// A node that serves on a thread of its own from construction on, for programs that embed one. The
/// destructor stops the node as `stop` does, without a grace period, and joins the thread.
/// Internally synchronised.
class NodeThread {
 public:
  explicit NodeThread(std::unique_ptr<Node> node);
  ~NodeThread();
  NodeThread(const NodeThread&) = delete;
  NodeThread& operator=(const NodeThread&) = delete;

  Node& node() { return *node_; }
  const Node& node() const { return *node_; }
  const std::string& endpoint() const { return node_->endpoint(); }

  /// Blocks until Node::run has returned, or until `limit` has passed. Returns the result of
  /// Node::run; nothing if it is still serving.
  std::optional<Result<NodeSummary>> wait(std::chrono::milliseconds limit) ISOCOST_EXCLUDES(mutex_);

  /// Blocks until every rank has left (see Node::wait_until_left), but no longer than `grace`; then
  /// asks the node to stop and blocks until it has, which takes as long as the sample that is being
  /// decoded and the step that is being planned. Returns the node's counters. May be called again:
  /// the node is stopped once. Errors: those of Node::run except kCancelled, since a node that was
  /// asked to stop has not failed.
  Result<NodeSummary> stop(std::chrono::milliseconds grace = {}) ISOCOST_EXCLUDES(mutex_);

 private:
  const std::unique_ptr<Node> node_;
  Mutex mutex_;
  ConditionVariable ended_;
  std::optional<Result<NodeSummary>> outcome_ ISOCOST_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: joined before the other members are destroyed
};

}  // namespace isocost
