// The program `isocost-lab`: experiments on balancing and pipelines, without a training job.

#include "cli/common/program.h"
#include "cli/lab/commands.h"

int main(int argc, char** argv) {
  namespace cli = isocost::cli;
  return cli::run_program(
      {.name = "isocost-lab",
       .description = "Experiments with Isocost's balancer, simulator and loader node.",
       .commands = {cli::add_simulate, cli::add_balance, cli::add_emulate}},
      argc, argv);
}
