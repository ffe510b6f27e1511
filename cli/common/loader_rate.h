#pragma once

#include <cstdint>
#include <stop_token>

#include "base/progress.h"
#include "base/result.h"
#include "loader/node/node_options.h"

namespace isocost::cli {

/// The work of a loader node on this host.
struct LoaderRate {
  double cpu_s_per_sample = 0;  ///< All of the node: reading, decoding, planning, sending.
  std::uint64_t samples = 0;    ///< Samples that were measured.
};

/// Serves the data that `options` name to a trainer in this process that drops what it receives,
/// as fast as it comes, for `seconds` after two steps that warm up. The job's shape is set here.
/// Blocks. Errors: those of Node::create, Client::connect and Client::next; kNotFound if no sample
/// arrives; kCancelled.
Result<LoaderRate> measure_loader(NodeOptions options, double seconds, const ProgressSink& progress,
                                  const std::stop_token& stop);

}  // namespace isocost::cli
