#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "costmodel/profile.h"
#include "decode/sample_decoder.h"
#include "loader/dataset/bad_samples.h"
#include "loader/dataset/dataset.h"
#include "loader/node/decoding/step_decoder.h"
#include "loader/node/internal/job_order.h"
#include "loader/node/internal/online_model.h"
#include "loader/node/node_options.h"
#include "loader/plan/microbatch_limits.h"
#include "loader/plan/served_layout.h"
#include "transport/zmq/server.h"

namespace isocost {

/// The objects that make up a node before it has a socket or a thread.
struct NodeParts {
  NodeOptions options;
  LogSink log;
  MonotonicClock clock;
  std::unique_ptr<Dataset> dataset;
  Recipe recipe;
  std::unique_ptr<SampleDecoder> decoder;
  MicrobatchLimits limits;             ///< Limits by the starting profile.
  std::unique_ptr<OnlineModel> model;  ///< The cost model, with the state of `correction_file`.
  std::unique_ptr<const ServedLayout> layout;  ///< Null: data-parallel only.
  JobOrders orders;
  std::unique_ptr<BadSampleList> bad;
  LoadHook load_hook;
  /// Ends requests to servers that have no stop of their own. Ask for it when nothing is served any
  /// more.
  std::stop_source requests = {};

  /// Returns the number of ranks, or receivers of the layout, that data is delivered to; 0: the
  /// first job determines it.
  std::int64_t receivers() const {
    return layout ? static_cast<std::int64_t>(layout->receivers().size()) : options.plan.ranks;
  }
};

/// Checks the options, reads the files that they name and indexes the data set, in this order, so
/// that a wrong option is reported before a long wait. Errors: those of Node::create, except for an
/// address that is in use. `clock` measures the time of planning and correction.
Result<NodeParts> open_node_parts(NodeOptions options, ProgressSink progress, const LogSink& log,
                                  LoadHook load_hook, const std::stop_token& stop = {},
                                  const MonotonicClock& clock = steady_clock());

/// Logs a warning where a model is served without a profile of its own: which profile is assumed
/// instead, and which command measures one.
void warn_of_assumed_profile(const NodeOptions& options, const CostProfile& profile,
                             const LogSink& log);

ServerOptions server_options(const NodeOptions& options);
/// Returns how a node's data set is opened, but for the parts of this process: sinks, readers.
DatasetOptions dataset_options_of(const DecodeOptions& options);

}  // namespace isocost
