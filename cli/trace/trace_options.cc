#include "cli/trace/trace_options.h"

#include "loader/report/data_profile.h"

namespace isocost::cli {

void TraceOptions::add_to(CLI::App& command) {
  CLI::App* samples = command.add_option_group("samples", "Samples, by one of these flags");
  CLI::Option* trace =
      samples
          ->add_option("--trace", traces,
                       "Traces: CSV files with the columns encoder_patches and llm_tokens")
          ->type_name("FILE[,FILE...]");
  samples
      ->add_option("--data-profile", data_profile,
                   "Data profile: JSON that 'isocost data profile --json' printed")
      ->type_name("FILE");
  samples->require_option(1);
  command
      .add_option("--weights", weights,
                  "Relative frequency with which each trace is drawn; default: equal")
      ->type_name("W[,W...]")
      ->needs(trace);
  command
      .add_option("--profile", profile,
                  "Model profile; default: the built-in one, estimated for SigLIP-so400m and "
                  "Qwen2.5-7B on an A100")
      ->type_name("FILE");
}

Result<TraceMix> TraceOptions::read() const {
  if (data_profile.empty()) return as_usage_error(read_traces(traces, weights));
  TraceMix mix;
  ISOCOST_ASSIGN(mix.traces.emplace_back(), as_usage_error(load_profiled_loads(data_profile)));
  mix.weights = {1};
  return mix;
}

}  // namespace isocost::cli
