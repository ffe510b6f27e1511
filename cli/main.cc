// The program `isocost`, with the commands that a training job needs.

#include "cli/common/program.h"
#include "cli/data/commands.h"
#include "cli/model/commands.h"
#include "cli/plan/commands.h"
#include "cli/service/commands.h"

int main(int argc, char** argv) {
  namespace cli = isocost::cli;
  return cli::run_program(
      {.name = "isocost",
       .description = "Isocost, a data loader that hands every rank microbatches of equal cost.",
       .commands = {cli::add_serve, cli::add_index, cli::add_check, cli::add_make_shards,
                    cli::add_tokenize, cli::add_keygen, cli::add_data, cli::add_cache,
                    cli::add_model_profile, cli::add_predict, cli::add_plan, cli::add_layout,
                    cli::add_top, cli::add_decode_worker},
       .elsewhere = {{"simulate", "isocost-lab simulate"},
                     {"balance", "isocost-lab balance"},
                     {"emulate", "isocost-lab emulate"}},
       .other_flags = {{"--shards", "--data"},
                       {"--dataset", "--data"},
                       {"--batch-size", "--global-batch-size"},
                       {"--max-pixels", "--image-size"},
                       {"--max-pixels", "--max-decoded-pixels"},
                       {"--min-pixels", "--image-size"},
                       {"--model-profile", "--profile"}}},
      argc, argv);
}
