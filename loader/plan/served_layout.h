#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "balancer/layout/place.h"
#include "base/load.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "loader/plan/plan_options.h"

namespace isocost {

/// A receiver of a layout (see balancer/layout/place.h), and what is done there.
struct Receiver {
  LayoutModule module = LayoutModule::kLlm;
  std::uint32_t replica = 0;
  std::uint32_t stage = 0;
  StageWork work;
  std::array<TensorCost, kModules> tensor{};  ///< Of each module.
  std::string name;                           ///< "llm, data 1, stage 0".

  /// Seconds that the receiver takes for its part of a load that takes one rank, without tensor or
  /// pipeline parallelism, `seconds`.
  ModuleSeconds from_one_rank(const ModuleSeconds& seconds, const Load& load) const;
  /// The other way: what was measured here, as one rank would have taken all of it: the seconds
  /// that the cost model is in. Modules that were not measured, or of which nothing is done here,
  /// are kNotMeasured.
  ModuleSeconds as_one_rank(const ModuleSeconds& measured, const Load& load) const;
};

/// A job's layout as its node needs it: plans are made for the LLM's replicas, and delivered to the
/// layout's receivers. Immutable.
class ServedLayout {
 public:
  /// Reads options.layout; null where there is none. `loads` are some of the data set's: where both
  /// modules stand in one pipeline, their mean decides how layers are cut into stages, as it does
  /// for `isocost plan`. Errors: those of check_layout and make_pipeline.
  static Result<std::unique_ptr<const ServedLayout>> create(const PlanOptions& options,
                                                            const CostProfile& starting,
                                                            std::span<const Load> loads);

  /// More than one stage: microbatches are divided and ordered against the pipeline's simulator.
  bool pipelined() const;
  /// [receivers(layout)]; lives as long as this.
  std::span<const Receiver> receivers() const { return receivers_; }
  bool has_encoder_ranks() const { return layout_.encoder_place == EncoderPlace::kOwnRanks; }
  /// See Layout.
  bool coupled() const { return layout_.coupled; }
  std::size_t encoder_replicas() const { return layout_.encoder.data; }
  /// Equal for equal layouts.
  std::uint64_t fingerprint() const { return layout_.fingerprint(); }
  /// For receivers whose seconds are multiplied by `slowdowns` (empty, or beyond its end: 1).
  PipelineModel pipeline(std::span<const double> slowdowns) const;
  std::size_t microbatches() const { return pipeline_.microbatches; }
  /// Whether the schedule can run so many microbatches.
  bool can_run(std::size_t microbatches) const {
    return layout_.chunks == 1 || microbatches % layout_.llm.pipeline == 0;
  }
  std::string to_json() const { return layout_.to_json(); }
  /// What a stage's activations may take; plans keep it where they can.
  const ActivationCaps& activation_caps() const { return layout_.activation_caps; }
  /// Why no plan can hold a sample of this load within the caps; nothing where one can.
  std::optional<std::string> beyond_memory(const Load& load) const;
  /// See Layout.
  std::vector<std::string> warnings() const { return layout_.warnings(); }
  /// A sample whose seconds on one rank are `seconds`.
  SampleCost price(const ModuleSeconds& seconds, const Load& load) const;

 private:
  ServedLayout(Layout layout, PipelineModel pipeline, JobModel job, std::vector<Receiver> receivers)
      : layout_(std::move(layout)),
        pipeline_(std::move(pipeline)),
        job_(std::move(job)),
        receivers_(std::move(receivers)) {}

  Layout layout_;
  PipelineModel pipeline_;
  JobModel job_;
  std::vector<Receiver> receivers_;
};

/// Whether options and profile fit options.layout, if there is one: all that can be known before
/// the data is. Errors: kInvalidArgument naming the field; those of Layout::load and make_pipeline.
Status check_layout(const PlanOptions& options, const CostProfile& starting);

/// Sets ranks and microbatches to those of options.layout. Errors: those of Layout::load.
Status adopt_layout(PlanOptions& options);

}  // namespace isocost
