#include "cli/lab/simulate_arguments.h"

#include "cli/number_range.h"

namespace isocost::cli {

void SimulateArguments::add_to(CLI::App& command) {
  const auto count = [&command](const char* name, std::size_t& value, std::int64_t least,
                                const char* text) {
    command.add_option(name, value, text)
        ->check(number_range(least, 1'000'000))
        ->capture_default_str();
  };
  source.add_to(command);
  CLI::Option* const layout_file =
      command
          .add_option("--layout", layout,
                      "Layout file of 'isocost plan'; replaces --dp to --schedule")
          ->type_name("FILE");
  count("--dp", data_degree, 1, "Data-parallel replicas");
  count("--pp", pipeline_degree, 1, "Pipeline stages of encoder and LLM together");
  count("--encoder-pp", encoder_stages, 0,
        "How many of the stages are the encoder's; 0: chosen by the first step's mean sample");
  count(
      "--tp", tensor_degree, 0,
      "Tensor-parallel degree of both modules; 0: the largest of 1, 2, 4 that divides their heads");
  count("--chunks", chunks, 0, "Model chunks per stage; 0: 2 if interleaved, else 1");
  count(
      "--microbatches", microbatches, 0,
      "Microbatches per replica and step; 0: 16, or if interleaved the next multiple of the LLM's "
      "stages");
  command.add_option("--schedule", schedule, "gpipe, 1f1b, interleaved or zb-h1")
      ->capture_default_str();
  for (const char* replaced :
       {"--dp", "--pp", "--encoder-pp", "--tp", "--chunks", "--microbatches", "--schedule"}) {
    layout_file->excludes(command.get_option(replaced));
  }
  count("--global-batch-size", global_batch_size, 1, "Samples per optimizer step");
  count("--steps", steps, 1, "Global batches to simulate");
  command
      .add_option("--interconnect", interconnect,
                  "All or some of node=300GB/s,network=12.5GB/s,latency=10us,gpus-per-node=8")
      ->type_name("LIST");
  command.add_option("--seed", seed, "Seed of the samples drawn")
      ->check(number_range(0, std::int64_t{1} << 53))
      ->capture_default_str();
  command
      .add_option(
          "--balance", balance,
          "Policies to compare: in-order and cost as a node plans, and lpt, which is vector "
          "LPT by predicted seconds")
      ->type_name("NAME[,NAME...]")
      ->capture_default_str();
  command
      .add_option("--slowdowns", slowdowns,
                  "Factors of the seconds of each LLM replica; policy cost plans with them")
      ->type_name("X[,X...]");
  count("--lookahead", lookahead, 1, "Global batches that policy cost composes together");
  command
      .add_option("--evaluations", order.evaluations,
                  "Search budget: simulator evaluations per step of policy cost")
      ->check(number_range(0, 100'000'000))
      ->capture_default_str();
  command
      .add_option("--gpu-memory", gpu_memory,
                  "Memory of a GPU; a note tells if state and activations exceed it")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      .add_option("--activation-memory", activation_memory,
                  "Limit of a stage's activations, which policy cost keeps; empty: no limit")
      ->type_name("SIZE");
  command.add_option("--svg", svg, "Draw the first step of every policy")->type_name("FILE");
  command.add_flag("--decouple", decouple,
                   "Also plan the encoder's microbatches apart from the LLM's");
  command.add_flag("--json", json, "Print JSON instead of text");
}

}  // namespace isocost::cli
