#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/load.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "loader/dataset/dataset.h"
#include "loader/node/node_options.h"
#include "loader/plan/mixture/mixture.h"

namespace isocost {

/// The microbatch that gets a sample: its number, and that of the rank, or of the layout's replica.
struct PreviewedPlace {
  std::uint32_t rank = 0;
  std::uint32_t microbatch = 0;
};

/// A sample of a step before it is decoded.
struct PreviewedSample {
  SampleId id = 0;
  std::string name = {};    ///< See sample_name.
  std::string bad = {};     ///< Why it cannot be used; empty: decoding decides.
  Load load = {};           ///< Empty for a bad sample.
  ModuleSeconds seconds{};  ///< Predicted by the model profile, without fixed seconds.
  /// Its microbatch; nothing for a bad sample, and where the number of ranks is not known.
  std::optional<PreviewedPlace> place = {};
};

struct PreviewedStep {
  std::vector<PreviewedSample> samples;  ///< In the order in which they are drawn.
  bool planned = false;                  ///< Whether samples have places.
};

/// Tells before training which samples a node will draw, by the node's own code: no sample is
/// decoded, and nothing listens. Samples that prove bad only when they are decoded are not known,
/// nor are those that take the place of bad ones. The job begins anew. Places are those of a node
/// that has learned nothing yet but what `correction_file` has. Single-thread.
class StepPreview {
 public:
  /// Opens the data set. Errors: those of Node::create, except for an address that is in use.
  static Result<std::unique_ptr<StepPreview>> open(NodeOptions options, ProgressSink progress,
                                                   const LogSink& log,
                                                   const std::stop_token& stop = {});
  virtual ~StepPreview() = default;

  virtual const Dataset& dataset() const = 0;
  /// Returns the mixture that is drawn from; null for one data set. Lives as long as this object.
  virtual const Mixture* mixture() const = 0;
  /// Returns the number of steps of an epoch; nothing if the data has no end.
  virtual std::optional<std::uint64_t> steps(std::uint64_t epoch) const = 0;
  /// Returns a step. Errors: kInvalidArgument with the number of epochs or steps for one that does
  /// not exist; those of BatchComposer::batch and plan_step.
  virtual Result<PreviewedStep> step(std::uint64_t epoch, std::uint64_t step) = 0;
};

}  // namespace isocost
