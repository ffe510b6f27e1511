#pragma once

#include <cstdint>
#include <memory>

#include "base/log.h"
#include "base/result.h"
#include "costmodel/profile.h"
#include "loader/dataset/bad_samples.h"
#include "loader/dataset/dataset.h"
#include "loader/node/internal/online_model.h"
#include "loader/node/internal/step_decoder.h"
#include "loader/node/node_options.h"
#include "loader/plan/cursor.h"
#include "loader/plan/served_layout.h"
#include "transport/server.h"

namespace isocost {

/// What a node is made of before it has a socket or a thread.
struct NodeParts {
  NodeOptions options;
  LogSink log;
  std::unique_ptr<Dataset> dataset;
  Recipe recipe;
  CostProfile profile;                         ///< To start from.
  std::unique_ptr<OnlineModel> model;          ///< With what the node's last run has kept.
  std::unique_ptr<const ServedLayout> layout;  ///< Null: data-parallel only.
  Cursor cursor;
  std::unique_ptr<BadSampleList> bad;
  LoadHook load_hook;

  /// Who takes what is delivered: ranks, or the layout's receivers; 0: not known before a job says
  /// it.
  std::int64_t receivers() const {
    return layout ? static_cast<std::int64_t>(layout->receivers().size()) : options.plan.ranks;
  }
  /// Steps of an epoch as it is served.
  std::uint64_t steps(std::uint64_t epoch) const;
};

/// Checks the options, reads what they name and indexes the data set, in this order: a long wait is
/// not to end in what could be seen before. Errors: as for Node::create, but for an address that
/// another has.
Result<NodeParts> open_node_parts(const NodeOptions& options, ProgressSink progress,
                                  const LogSink& log, LoadHook load_hook);

ServerOptions server_options(const NodeOptions& options);

}  // namespace isocost
