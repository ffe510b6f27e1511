#include "cli/lab/simulate_arguments.h"

#include "cli/common/number_range.h"
#include "cli/lab/layout_flags.h"

namespace isocost::cli {
namespace {

constexpr std::int64_t kMost = 1'000'000;  // limit of every count

}  // namespace

void SimulateArguments::add_to(CLI::App& command) {
  source.add_to(command);
  add_model_parallelism(command);
  add_run(command);
  add_policies(command);
  add_limits(command);
  command.add_option("--svg", svg, "Draw the first step of every policy")->type_name("FILE");
  add_force(command, force);
  command.add_flag("--decouple", decouple,
                   "Also plan the encoder's microbatches apart from the LLM's");
  command.add_flag("--json", json, "Print JSON instead of text");
}

void SimulateArguments::add_model_parallelism(CLI::App& command) {
  CLI::Option* const layout_file = add_layout_file(command, layout);
  add_count(command, "--dp", data_degree, 1, kMost, "Data-parallel replicas");
  add_count(command, "--pp", pipeline_degree, 1, kMost,
            "Pipeline stages of encoder and LLM together");
  add_count(command, "--encoder-pp", encoder_stages, 0, kMost,
            "How many of the stages are the encoder's; 0: chosen by the first step's mean sample");
  add_count(
      command, "--tp", tensor_degree, 0, kMost,
      "Tensor-parallel degree of both modules; 0: the largest of 1, 2, 4 that divides their heads");
  add_count(command, "--chunks", chunks, 0, kMost,
            "Model chunks per stage; 0: 2 if interleaved, else 1");
  add_count(
      command, "--microbatches", microbatches, 0, kMost,
      "Microbatches per replica and step; 0: 16, or if interleaved the next multiple of the LLM's "
      "stages");
  command.add_option("--schedule", schedule, "gpipe, 1f1b, interleaved or zb-h1")
      ->capture_default_str();
  replace_by(layout_file, command,
             {"--dp", "--pp", "--encoder-pp", "--tp", "--chunks", "--microbatches", "--schedule"});
}

void SimulateArguments::add_run(CLI::App& command) {
  add_count(command, "--global-batch-size", global_batch_size, 1, kMost,
            "Samples per optimizer step");
  add_count(command, "--steps", steps, 1, kMost, "Global batches to simulate");
  command
      .add_option("--interconnect", interconnect,
                  "All or some of node=300GB/s,network=12.5GB/s,latency=10us,gpus-per-node=8")
      ->type_name("LIST");
  add_seed(command, seed);
}

void SimulateArguments::add_policies(CLI::App& command) {
  command
      .add_option(
          "--balance", balance,
          "Policies to compare: in-order, tokens and cost as a node plans, and lpt, which is "
          "vector LPT by predicted seconds")
      ->type_name("NAME[,NAME...]")
      ->capture_default_str();
  command
      .add_option("--slowdowns", slowdowns,
                  "Factors of the seconds of each LLM replica; policy cost plans with them")
      ->type_name("X[,X...]");
  add_count(command, "--lookahead", lookahead, 1, kMost,
            "Global batches that policy cost composes together");
  command
      .add_option("--evaluations", order.evaluations,
                  "Search budget: simulator evaluations per step of policy cost")
      ->check(number_range(0, 100'000'000))
      ->capture_default_str();
}

void SimulateArguments::add_limits(CLI::App& command) {
  command
      .add_option("--gpu-memory", gpu_memory,
                  "Memory of a GPU; a note tells if state and activations exceed it")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      .add_option("--activation-memory", activation_memory,
                  "Limit of a stage's activations, kept by policy cost alone; empty: no limit")
      ->type_name("SIZE");
}

}  // namespace isocost::cli
