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

/// A receiver of a layout (see balancer/layout/place.h) and the work of its stage.
struct Receiver {
  LayoutModule module = LayoutModule::kLlm;
  std::uint32_t replica = 0;
  std::uint32_t stage = 0;
  StageWork work;
  bool has_backward = true;                   ///< False if the stage has a frozen encoder's layers.
  std::array<TensorCost, kModules> tensor{};  ///< Tensor-parallel cost of each module.
  /// Part of each module's work that one of its layers is.
  std::array<double, kModules> layer_shares{};
  std::string name;  ///< "llm, data 1, stage 0".

  /// Returns the seconds that this receiver takes for its part of a load. `seconds` is what one
  /// rank without tensor or pipeline parallelism takes for the whole load.
  ModuleSeconds from_one_rank(const ModuleSeconds& seconds, const Load& load) const;
  /// Converts the other way: seconds measured here into seconds of one rank for the whole load, the
  /// unit of the cost model. Modules without a measurement or without work here are kNotMeasured.
  ModuleSeconds as_one_rank(const ModuleSeconds& measured, const Load& load) const;
  /// Converts seconds of so many layers of a module, measured here with `units`, in the same way.
  double layers_as_one_rank(CostModule of, double layers, double measured_s,
                            std::int64_t units) const;
};

/// Returns the cost on one rank of a sample that takes `seconds` there.
SampleCost one_rank_cost(const ModuleSeconds& seconds, const Load& load);

/// The layout of a job as its node uses it: steps are planned for the LLM's replicas and delivered
/// to the layout's receivers. Immutable.
class ServedLayout {
 public:
  /// Returns null if there is no options.layout. `loads` is a sample of the data set's
  /// loads: if both modules share one pipeline, their mean decides how layers are cut into stages,
  /// as in `isocost plan`. Errors: those of check_layout and make_pipeline.
  static Result<std::unique_ptr<const ServedLayout>> create(const PlanOptions& options,
                                                            const CostProfile& starting,
                                                            std::span<const Load> loads);

  /// Returns whether there is more than one stage.
  bool pipelined() const;
  /// Returns the receivers. Views live as long as this object.
  std::span<const Receiver> receivers() const { return receivers_; }
  bool has_encoder_ranks() const { return layout_.encoder_place == EncoderPlacement::kOwnRanks; }
  /// See Layout::coupled.
  bool coupled() const { return layout_.coupled; }
  std::size_t encoder_replicas() const { return layout_.encoder.data; }
  /// Returns a hash that is equal for equal layouts.
  std::uint64_t fingerprint() const { return layout_.fingerprint(); }
  /// Returns the pipeline with the receivers' slowdowns; receivers beyond the end of `slowdowns`
  /// have 1.
  PipelineModel pipeline(std::span<const double> slowdowns) const;
  std::size_t microbatches() const { return pipeline_.microbatches; }
  /// Returns whether the schedule can run this number of microbatches.
  bool can_run(std::size_t microbatches) const {
    return layout_.chunks == 1 || microbatches % layout_.llm.pipeline == 0;
  }
  std::string to_json() const { return layout_.to_json(); }
  const Layout& layout() const { return layout_; }
  /// Returns the job as the layout was served: with the starting profile, and the layout's
  /// machines.
  const JobModel& job() const { return job_; }
  /// Returns the caps on activation bytes per stage, which plans keep if they can.
  const ActivationCaps& activation_caps() const { return layout_.activation_caps; }
  /// Returns why no plan can hold a sample of this load within the caps; nothing if one can.
  std::optional<std::string> beyond_memory(const Load& load) const;
  /// Returns whether the model profile has layers with experts, which are planned as dense ones.
  bool has_experts() const { return job_.encoder.experts > 0 || job_.llm.experts > 0; }
  /// Returns those of the layout (see Layout::warnings), and one for layers with experts.
  std::vector<std::string> warnings() const;
  /// Returns the cost, on each tensor rank, of a sample that takes `seconds` on one rank.
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

/// Checks options and model profile against options.layout, if there is one, before any data is
/// read. Errors: kInvalidArgument naming the field; those of make_pipeline.
Status check_layout(const PlanOptions& options, const CostProfile& starting);

}  // namespace isocost
