#include "cli/lab/emulate_arguments.h"

#include "cli/common/number_range.h"
#include "cli/lab/layout_flags.h"
#include "loader/config/option_table.h"

namespace isocost::cli {
namespace {

void add_disturbance(CLI::App& command, DisturbanceText& disturbance) {
  command
      .add_option("--noise", disturbance.noise,
                  "Relative standard deviation of a microbatch's seconds")
      ->check(number_range(0, 1.0))
      ->capture_default_str();
  command
      .add_option("--slow-rank", disturbance.slow_rank,
                  "Data index whose passes, of both modules, take longer for some of the steps: "
                  "3:1.2@50-150")
      ->type_name("INDEX:FACTOR[@FROM[-UNTIL]]");
  command
      .add_option("--change", disturbance.changes,
                  "Module whose passes take longer from a step on, as if it were unfrozen: "
                  "encoder:3@100. Once per module")
      ->type_name("MODULE:FACTOR[@FROM[-UNTIL]]")
      ->allow_extra_args(false);
  command
      .add_option("--anomalies", disturbance.anomalies,
                  "Share of the samples, those in a range of lengths, whose LLM takes longer than "
                  "the model profile says: 0.05:1.5")
      ->type_name("SHARE:FACTOR");
  command
      .add_option("--measuring-cost", disturbance.measuring_cost,
                  "Share of a pass that measuring takes in addition, in steps that are measured. "
                  "With it or --anomalies the job runs twice: the second time without correction "
                  "and measuring, for the net gain")
      ->check(number_range(0, 1.0))
      ->capture_default_str();
}

}  // namespace

void EmulateArguments::add_to(CLI::App& command) {
  source.add_to(command);
  CLI::Option* const layout_file = add_layout_file(command, layout);
  add_count(command, "--dp", data_degree, 1, 1024, "Data-parallel replicas");
  add_count(command, "--pp", pipeline_degree, 1, 64,
            "Pipeline stages of encoder and LLM together, a thread each");
  add_count(command, "--encoder-pp", encoder_stages, 1, 63,
            "How many of the stages are the encoder's");
  add_count(command, "--microbatches", microbatches, 1, 4096, "Microbatches per replica and step");
  command.add_option("--schedule", schedule, "gpipe, 1f1b or zb-h1")->capture_default_str();
  replace_by(layout_file, command,
             {"--dp", "--pp", "--encoder-pp", "--microbatches", "--schedule"});
  add_count(command, "--global-batch-size", global_batch_size, 1, 1'000'000,
            "Samples per optimizer step");
  add_count(command, "--steps", steps, 1, 1'000'000, "Steps to count, after one to warm up");
  command.add_option("--balance", balance, "Policy of the node")
      ->type_name(find_node_option("balance")->value)
      ->capture_default_str();
  command
      .add_option(
          "--step-seconds", step_seconds,
          "Seconds per step that the busiest stage works: modelled seconds are scaled to it")
      ->check(number_range(0.01, 1000))
      ->capture_default_str();
  command.add_flag("--virtual-clock", virtual_clock,
                   "Count modelled seconds instead of waiting for them: no time of this machine "
                   "enters, and a step takes exactly what the simulator says");
  command
      .add_option("--hidden-profile", hidden_profile,
                  "Model profile that the trainers follow, while the node plans by --profile")
      ->type_name("FILE");
  add_disturbance(command, disturbance);
  add_seed(command, seed);
  command
      .add_option("--svg", svg, "Draw the last step, as predicted and as the trainers report it")
      ->type_name("FILE");
  add_force(command, force);
  command.add_flag("--json", json, "Print JSON instead of text");
}

}  // namespace isocost::cli
