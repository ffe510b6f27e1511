#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cli/lab/emulated_disturbance.h"
#include "cli/trace/trace_options.h"

namespace isocost::cli {

/// The flags of `isocost-lab emulate`.
struct EmulateArguments {
  TraceOptions source;
  std::string layout;  ///< Layout file; replaces the next five.
  std::size_t data_degree = 8;
  std::size_t pipeline_degree = 4;  ///< Stages of both modules together.
  std::size_t encoder_stages = 1;
  std::size_t microbatches = 8;
  std::string schedule = "1f1b";
  std::string balance = "cost";
  std::size_t global_batch_size = 256;
  std::size_t steps = 50;
  double step_seconds = 0.6;
  bool virtual_clock = false;
  std::string hidden_profile;
  DisturbanceText disturbance;
  std::uint64_t seed = 0;
  std::string svg;
  bool force = false;
  bool json = false;

  void add_to(CLI::App& command);
};

}  // namespace isocost::cli
