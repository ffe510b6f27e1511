#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balancer/pipeline/schedule.h"
#include "base/load.h"
#include "cli/lab/emulated_disturbance.h"
#include "cli/lab/replica_timeline.h"
#include "costmodel/sample_cost.h"
#include "transport/wire/messages.h"

namespace isocost::cli {

/// A microbatch on one emulated stage.
struct StageMicrobatch {
  Report report;  ///< Position, and the seconds that the node predicted.
  EmulatedMicrobatch work;
  std::vector<Route> routes;
  double measuring = 0;  ///< Share of a pass's work that measuring takes in addition.
  double seconds = 0;    ///< Modelled seconds of the passes so far, with measuring.
  double forward_s = 0;  ///< The forward pass's part of them.
};

/// Returns the report of a microbatch whose passes have run. It holds modelled seconds: measured
/// ones would hold the delays of this machine's threads, which say nothing about the emulated
/// cluster. Each module gets the share that the node predicted, without the time of measuring,
/// which is a modelled one, too.
Report report_of(const StageMicrobatch& microbatch);

/// Returns the seconds that anomalies add to the LLM in a microbatch with these samples. Sample i
/// has the load i modulo their number.
double anomalous_s(const EmulatedAnomalies& anomalies, const MicrobatchHeader& header,
                   std::span<const Load> loads, const SamplePrices& prices);

/// Returns the encoder microbatches that an LLM microbatch needs. A feed has the bytes of the
/// samples that have rows in it. Sample i has the load i modulo their number.
std::vector<EmulatedFeed> feeds_of(const MicrobatchHeader& header, std::span<const Load> loads,
                                   const SamplePrices& prices, double bytes_per_llm_unit);

/// Returns the first and last LLM microbatch that each encoder microbatch of a step feeds. An
/// encoder microbatch that feeds none has those of the one before it.
std::vector<FedMicrobatches> fed_by(std::span<const StageMicrobatch> microbatches);

}  // namespace isocost::cli
