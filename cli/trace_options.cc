#include "cli/trace_options.h"

#include "loader/report/data_profile.h"

namespace isocost::cli {

void TraceOptions::add_to(CLI::App& command) {
  CLI::App* samples = command.add_option_group("samples", "What is trained on; one of these");
  CLI::Option* trace =
      samples->add_option("--trace", traces, "Traces: CSV with encoder_patches, llm_tokens")
          ->type_name("FILE[,FILE...]");
  samples->add_option("--data", data, "What 'isocost profile-data --json' wrote")
      ->type_name("FILE");
  samples->require_option(1);
  command.add_option("--weights", weights, "How often each trace is drawn; empty: equal")
      ->type_name("W[,W...]")
      ->needs(trace);
  command
      .add_option("--profile", profile,
                  "Cost profile; empty: SigLIP-so400m and Qwen2.5-7B on an A100, stated")
      ->type_name("FILE");
}

Result<TraceMix> TraceOptions::read() const {
  if (data.empty()) return of_given(read_traces(traces, weights));
  TraceMix mix;
  ISOCOST_ASSIGN(mix.traces.emplace_back(), of_given(load_profiled_loads(data)));
  mix.weights = {1};
  return mix;
}

}  // namespace isocost::cli
