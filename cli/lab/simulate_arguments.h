#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "balancer/pipeline/pipeline_plan.h"
#include "cli/trace/trace_options.h"

namespace isocost::cli {

/// The flags of `isocost-lab simulate`.
struct SimulateArguments {
  TraceOptions source;
  std::string interconnect;
  std::string layout;  ///< Layout file; replaces the next seven.
  std::size_t data_degree = 8;
  std::size_t pipeline_degree = 8;  ///< Stages of both modules together.
  std::size_t encoder_stages = 0;   ///< 0: the number that suits the mean sample.
  std::size_t tensor_degree = 0;    ///< 0: the usual degree.
  std::size_t chunks = 0;           ///< 0: the schedule's default.
  std::size_t microbatches = 0;     ///< 0: the schedule's default.
  std::string schedule = "1f1b";
  std::size_t global_batch_size = 512;
  std::size_t steps = 10;
  std::uint64_t seed = 0;
  std::string balance = "in-order,lpt,cost";
  std::size_t lookahead = 1;
  bool decouple = false;
  std::string slowdowns;
  PipelineSearchOptions order;
  std::string gpu_memory = "80GiB";
  std::string activation_memory;
  std::string svg;
  bool force = false;
  bool json = false;

  void add_to(CLI::App& command);

 private:
  void add_model_parallelism(CLI::App& command);
  void add_run(CLI::App& command);
  void add_policies(CLI::App& command);
  void add_limits(CLI::App& command);
};

}  // namespace isocost::cli
