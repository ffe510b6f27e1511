#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "loader/dataset.h"
#include "loader/node_options.h"
#include "loader/step_decoder.h"

namespace isocost {

/// What a node did, for people and for checks.
struct NodeSummary {
  std::uint64_t epochs = 0;
  std::uint64_t steps = 0;
  std::uint64_t delivered = 0;  ///< Samples planned for delivery, repeats left out.
  std::uint64_t bad = 0;        ///< Found bad, by indexing or decoding.
  std::uint64_t replaced = 0;
  std::uint64_t repeats = 0;  ///< Zero-weight places.
  std::uint64_t dropped = 0;  ///< Tail samples dropped.
  std::uint64_t decoded_again =
      0;  ///< Samples decoded twice because memory was short or a client came back.
  double plan_seconds_mean = 0;
  double gap_mean = 0;  ///< Plan's makespan over its lower bound, less 1.
  std::int64_t memory_peak_bytes = 0;
  std::int64_t measurements = 0;
  std::int64_t reports_rejected = 0;
  ModuleSeconds mape{};  ///< NaN where nothing was measured.

  std::string to_json() const;
};

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
};

}  // namespace isocost
