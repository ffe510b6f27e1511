#include "examples/pipeline_trainer/options.h"

#include <CLI/CLI.hpp>
#include <map>

namespace isocost {
namespace {

void add_job(CLI::App& app, Options& options) {
  app.add_option("--data", options.data, "Directory of shards made by `isocost make-shards`")
      ->type_name("DIR")
      ->required();
  app.add_option("--encoder-dp", options.encoder_dp, "Replicas of the encoder stage")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option(
         "--profile", options.profile,
         "Model profile that the node plans with (docs/model_profile.md) [the stated default]")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  app.add_option("--llm-dp", options.llm_dp, "Replicas of the LLM's stages")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--llm-stages", options.llm_stages, "Stages of each LLM replica")
      ->check(CLI::Range(std::int64_t{2}, options.model.llm_depth))
      ->capture_default_str();
  app.add_option("--microbatches", options.microbatches, "Microbatches per LLM replica and step")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--global-batch-size", options.global_batch_size, "Samples per step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Steps to train")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Seed of the sample order and of the first weights")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--lr", options.learning_rate, "Learning rate of plain SGD")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
}

void add_rest(CLI::App& app, Options& options, std::int64_t& timeout_s) {
  app.add_flag(
      "--coupled", options.coupled,
      "Give encoder microbatches the same samples as the LLM's, even if other plans are faster");
  app.add_flag("--check-gradient", options.check_gradient,
               "Compare each step's gradient with that of one process and one batch, in float64");
  app.add_option("--dtype", options.dtype, "float32, or float64 [float32]")
      ->type_name("NAME")
      ->transform(CLI::CheckedTransformer(std::map<std::string, c10::ScalarType>{
          {"float32", c10::kFloat}, {"float64", c10::kDouble}}));
  app.add_option("--json", options.json, "Write the results to this file; -: standard output")
      ->type_name("FILE");
  app.add_option("--checkpoint", options.checkpoint,
                 "Save the weights in this directory after each step")
      ->type_name("DIR");
  app.add_flag("--resume", options.resume, "Resume from the newest state in --checkpoint");
  app.add_option("--peer-timeout", timeout_s, "Seconds that a process waits for another")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
}

// Returns what is wrong with the combination of options; empty: nothing.
std::string contradiction(const CLI::App& app, const Options& options) {
  if (options.resume && options.checkpoint.empty()) return "--resume needs --checkpoint";
  if (options.check_gradient && app.count("--dtype") > 0 && options.dtype != c10::kDouble) {
    return "--check-gradient computes in float64: leave --dtype out";
  }
  return {};
}

}  // namespace

Layout Options::layout() const {
  Layout layout;
  layout.encoder_place = EncoderPlacement::kOwnRanks;
  layout.encoder = {1, 1, encoder_dp};
  layout.coupled = coupled;
  layout.llm = {1, llm_stages, llm_dp};
  layout.microbatches = microbatches;
  layout.schedule = Schedule::k1F1B;
  return layout;
}

Parsed parse_options(int argc, char** argv) {
  CLI::App app(
      "Trains the example model as a pipeline: an encoder stage and the LLM's stages, each with "
      "its\n"
      "own number of replicas. Every replica of a stage is a process, and a loader node serves "
      "them.");
  app.footer(
      "Examples:\n"
      "  pipeline_trainer --data build/demo/shards --encoder-dp 1 --llm-dp 2\n"
      "  pipeline_trainer --data build/demo/shards --encoder-dp 2 --llm-dp 2 --check-gradient\n"
      "  pipeline_trainer --data build/demo/shards --steps 8 --json run.json\n"
      "  pipeline_trainer --data build/demo/shards --checkpoint states --resume\n"
      "Starts the node and all processes, and ends them. Exit status: 0 done, 1 failed, 2 usage,\n"
      "128 + N stopped by signal N.");
  Parsed parsed;
  std::int64_t timeout_s = parsed.options.peer_timeout.count();
  add_job(app, parsed.options);
  add_rest(app, parsed.options, timeout_s);
  try {
    app.parse(argc, argv);
    const std::string wrong = contradiction(app, parsed.options);
    if (!wrong.empty()) throw CLI::ValidationError(wrong);
  } catch (const CLI::ParseError& error) {
    parsed.ended = true;
    parsed.status = app.exit(error) == 0 ? 0 : 2;
    return parsed;
  }
  parsed.options.peer_timeout = std::chrono::seconds(timeout_s);
  if (parsed.options.check_gradient) parsed.options.dtype = c10::kDouble;
  return parsed;
}

}  // namespace isocost
