#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "balancer/layout_model.h"
#include "base/load.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "loader/node_options.h"

namespace isocost {

/// A job's layout as its node needs it. The node's ranks are the LLM's replicas: the ranks of a
/// replica's tensor and pipeline groups compute on one and the same delivery. Immutable.
class ServedLayout {
 public:
  /// Reads options.layout; null where there is none. `loads` are some of the data set's: where both
  /// modules stand in one pipeline, their mean decides how layers are cut into stages, as it does
  /// for `isocost plan`. Errors: those of check_layout and make_pipeline.
  static Result<std::unique_ptr<const ServedLayout>> create(const NodeOptions& options,
                                                            const CostProfile& starting,
                                                            std::span<const Load> loads);

  /// More than one stage: microbatches are divided and ordered against the pipeline's simulator.
  bool pipelined() const;
  /// For replicas whose seconds are multiplied by `speeds` (empty, or beyond its end: 1).
  PipelineModel pipeline(std::span<const double> speeds) const;
  std::size_t microbatches() const { return pipeline_.microbatches; }
  std::string to_json() const { return layout_.to_json(); }
  /// What a stage's activations may take; plans keep it where they can.
  const ActivationCaps& activation_caps() const { return layout_.activation_caps; }
  /// A sample whose seconds on one rank are `seconds`.
  PipelineLoad price(const ModuleSeconds& seconds, const Load& load) const;
  /// Seconds that a replica measured of this load, as one rank without tensor parallelism would
  /// have taken them: those that the cost model is in. Negative ones (not measured) stay so.
  ModuleSeconds as_one_rank(const ModuleSeconds& measured, const Load& load) const;

 private:
  ServedLayout(Layout layout, PipelineModel pipeline, JobModel job)
      : layout_(std::move(layout)), pipeline_(std::move(pipeline)), job_(std::move(job)) {}

  Layout layout_;
  PipelineModel pipeline_;
  JobModel job_;
};

/// Whether ranks and microbatches are those of options.layout, if there is one. Errors:
/// kInvalidArgument naming the field; those of Layout::load.
Status check_layout(const NodeOptions& options);

/// Sets ranks and microbatches to those of options.layout. Errors: those of Layout::load.
Status adopt_layout(NodeOptions& options);

}  // namespace isocost
