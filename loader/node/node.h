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
#include "loader/node/load_hook.h"
#include "loader/node/node_options.h"

namespace isocost {

/// A loader node with its coordinator: draws global batches, decodes, plans, delivers, takes
/// measurements. Threads: one plans (and waits for decoding), one delivers, one carries the socket,
/// and the workers.
class Node {
 public:
  /// Opens the data set and binds the socket; planning starts with `run`. Errors: those of
  /// NodeOptions::validate, Dataset::open, the profile and Server::create.
  static Result<std::unique_ptr<Node>> create(const NodeOptions& options, ProgressSink progress,
                                              const LogSink& log, LoadHook load_hook = {});
  virtual ~Node() = default;

  /// Where clients connect, the port filled in.
  virtual const std::string& endpoint() const = 0;
  virtual const Dataset& dataset() const = 0;

  /// Serves until every rank has acknowledged the last epoch, `stop` is requested, or something
  /// fails; clients are told which. Where all clients of a job go before its end, the next ones may
  /// begin another: from another step, and, where the options leave it open, with another number of
  /// ranks. Call once. Errors: kCancelled; what the bad-sample policy or
  /// planning failed with.
  virtual Result<NodeSummary> run(const std::stop_token& stop) = 0;

  /// Waits until every rank has come and gone, at most so long; whether that came about. From any
  /// thread: who embeds a node lets the other ranks finish before it stops.
  virtual bool wait_until_left(std::chrono::milliseconds limit) = 0;
  /// What it did so far. From any thread.
  virtual NodeSummary summary() = 0;
  /// The same and what it is doing now. From any thread; takes each part under its own lock, for
  /// microseconds. Parts may be that much apart.
  virtual NodeMetrics metrics() = 0;
  /// The newest step that every receiver measured, as predicted and as measured: see Timeline.
  /// Empty where no metrics are served. From any thread.
  virtual std::string timeline_svg() const = 0;
  /// Where `metrics` is served over HTTP, the port filled in; empty where it is not.
  virtual std::string metrics_url() const = 0;
};

}  // namespace isocost
