#include "loader/cli/trace_options.h"

namespace isocost::cli {

CLI::Option* TraceOptions::add_to(CLI::App& command, CLI::App& group) {
  CLI::Option* trace =
      group.add_option("--trace", traces, "Traces: CSV with encoder_patches, llm_tokens")
          ->type_name("FILE[,FILE...]");
  command.add_option("--weights", weights, "How often each trace is drawn; empty: equal")
      ->type_name("W[,W...]")
      ->needs(trace);
  command
      .add_option("--profile", profile,
                  "Cost profile; empty: SigLIP-so400m and Qwen2.5-7B on an A100, stated")
      ->type_name("FILE");
  return trace;
}

}  // namespace isocost::cli
