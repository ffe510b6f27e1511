#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "loader/dataset/dataset.h"
#include "loader/metrics/snapshot.h"
#include "loader/node/decoding/load_hook.h"
#include "loader/node/node_options.h"

namespace isocost {

/// A loader node with its coordinator: draws global batches, decodes and plans them, delivers
/// microbatches, and corrects its cost model from measurements. Threads: one plans (and waits for
/// decoding), one delivers (the one that calls `run`), one owns the socket, one serves metrics, and
/// the workers decode.
class Node {
 public:
  /// Opens the data set and binds the socket; planning starts with `run`. Errors: those of
  /// NodeOptions::validate, Dataset::open, CostProfile::load and Server::create;
  /// kCancelled if `stop` is requested while shards are indexed.
  static Result<std::unique_ptr<Node>> create(const NodeOptions& options, ProgressSink progress,
                                              const LogSink& log, LoadHook load_hook = {},
                                              const std::stop_token& stop = {});
  virtual ~Node() = default;

  /// Returns the endpoint that clients connect to, with its port.
  virtual const std::string& endpoint() const = 0;
  virtual const Dataset& dataset() const = 0;

  /// Serves until every rank has acknowledged the last epoch, `stop` is requested or something
  /// fails; clients are told which. If all clients of a job leave before its end, the next clients
  /// may begin another job: from another step and, where the options do not set it, with another
  /// number of ranks. After a request to `drain`, the steps that ranks have begun are delivered,
  /// and clients then learn where to resume. Call once. Errors: kCancelled, also where draining
  /// takes more than 20 seconds; kIo if reads failed for the option io_timeout; kUnavailable if a
  /// rank that has left alone keeps the job from its end; those of the bad-sample policy and of
  /// planning.
  virtual Result<NodeSummary> run(const std::stop_token& stop,
                                  const std::stop_token& drain = {}) = 0;

  /// Blocks until every rank has joined and left, or until `limit` has passed. Returns whether all
  /// ranks left. Thread-safe. Serves a process that embeds a node, and lets the other ranks finish
  /// before it stops the node.
  virtual bool wait_until_left(std::chrono::milliseconds limit) = 0;
  /// Returns counters since the start. Thread-safe.
  virtual NodeSummary summary() = 0;
  /// Returns the counters and the present state. Thread-safe. Takes the lock of one part after
  /// another, each for microseconds, so the parts may differ in time by that much.
  virtual NodeMetrics metrics() = 0;
  /// Draws the newest step that every receiver measured, as predicted and as measured: see
  /// Timeline. Returns nothing if no metrics are served. Thread-safe.
  virtual std::string timeline_svg() const = 0;
  /// Returns the URL at which `metrics` is served, with its port; empty if it is not served.
  virtual std::string metrics_url() const = 0;
};

}  // namespace isocost
