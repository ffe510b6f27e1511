#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "cli/common/exit_status.h"
#include "cli/common/number_range.h"
#include "cli/common/overwrite.h"
#include "cli/common/python_command.h"
#include "cli/model/commands.h"
#include "decode/recipe.h"

namespace isocost::cli {
namespace {

constexpr double kLeastSeconds = 1e-3;
constexpr double kMostSeconds = 7 * 24 * 3600;
constexpr std::int64_t kMostUnits = std::int64_t{1} << 24;

struct ModelProfileArguments {
  std::string model;
  bool example = false;
  std::string output = "profile.json";
  double budget_s = 60;
  std::optional<int> threads;
  // The options below need a model's directory.
  std::string dtype;
  std::string device;
  std::string attention;
  std::vector<std::string> frozen;
  std::string image_size;
  std::int64_t most_patches = 0;
  std::int64_t most_positions = 0;
  std::int64_t most_tokens = 0;
  bool force = false;
  bool json = false;

  void add_to(CLI::App& command);

 private:
  void add_model_options(CLI::App& command);
};

// Sets the number of threads for the BLAS of the process that replaces this one.
void set_threads(int threads) {
  const std::string text = std::to_string(threads);
  setenv("OPENBLAS_NUM_THREADS", text.c_str(), 1);
  setenv("OMP_NUM_THREADS", text.c_str(), 1);
}

// Replaces this process by the program that links libtorch. Returns only if that fails.
Error start_example(const ModelProfileArguments& arguments) {
  std::error_code failure;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failure);
  const std::string program = (self.parent_path() / "profile_example").string();
  if (failure || !std::filesystem::exists(program, failure)) {
    return {ErrorCode::kNotFound,
            program +
                " does not exist. The example's model is not installed: run --example with "
                "the isocost of a build tree that has libtorch (./run build leaves it in "
                "build/release)"};
  }
  // The default is one thread, as for a rank of the demo.
  const std::string threads = std::to_string(arguments.threads.value_or(1));
  set_threads(arguments.threads.value_or(1));
  const std::string budget = std::to_string(arguments.budget_s);
  execl(program.c_str(), program.c_str(), "--output", arguments.output.c_str(), "--budget",
        budget.c_str(), "--threads", threads.c_str(), nullptr);
  return {ErrorCode::kIo, "cannot start " + program + ": " +
                              std::error_code(errno, std::system_category()).message()};
}

// Replaces this process by Python, where the model is built with transformers. Returns only if that
// fails, or if Isocost knows no such model.
Error start_model(const ModelProfileArguments& arguments) {
  ISOCOST_ASSIGN(const ImageSize size, as_usage_error(parse_image_size(arguments.image_size)));
  const Result<Recipe> known = as_usage_error(
      Recipe::create(ModelRecipeOptions{.directory = arguments.model, .image_size = size}));
  if (!known) return known.error();
  std::vector<std::string> words = {arguments.model, "--output", arguments.output, "--budget",
                                    std::to_string(arguments.budget_s)};
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--dtype", arguments.dtype);
  add("--device", arguments.device);
  add("--attention", arguments.attention);
  for (const std::string& module : arguments.frozen) add("--frozen", module);
  add("--image-size", arguments.image_size);
  add("--most-patches", std::to_string(arguments.most_patches));
  add("--most-positions", std::to_string(arguments.most_positions));
  add("--most-tokens", std::to_string(arguments.most_tokens));
  if (arguments.json) words.emplace_back("--json");
  if (arguments.threads) set_threads(*arguments.threads);
  return run_python(
      {"isocost model profile", "isocost.model_profile", "isocost torch transformers"}, words);
}

Result<int> model_profile(const ModelProfileArguments& arguments) {
  if (arguments.example == !arguments.model.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "name a model's directory, or give --example for the model of ./run demo");
  }
  if (arguments.output.empty())
    return Error(ErrorCode::kInvalidArgument, "--output is empty; name a file");
  ISOCOST_TRY(check_new_file("--output", arguments.output, arguments.force));
  return arguments.example ? start_example(arguments) : start_model(arguments);
}

void ModelProfileArguments::add_to(CLI::App& command) {
  command
      .add_option(
          "model", model,
          "A model's directory: config.json, preprocessor_config.json; weights are not read")
      ->type_name("DIR");
  command.add_flag("--example", example, "Measure the model of ./run demo, in a build tree");
  command.add_option("--output", output, "Model profile to write")
      ->type_name("FILE")
      ->capture_default_str();
  command.add_option("--budget", budget_s, "Time to spend: 30s, 5m, 1h, a week at most [60s]")
      ->type_name("TIME")
      ->transform(
          CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"m", 60}, {"h", 3600}}))
      ->check(number_range(kLeastSeconds, kMostSeconds));
  command
      .add_option("--threads", threads,
                  "Threads in which the model computes on a CPU [--example: 1, else one per core]")
      ->check(number_range(1, 1024));
  add_model_options(command);
  add_force(command, force);
}

void ModelProfileArguments::add_model_options(CLI::App& command) {
  const auto option = [&command](const char* name, auto& value, const char* text) {
    return command.add_option(name, value, text)->excludes("--example");
  };
  option("--dtype", dtype, "Of the weights [GPU: that of config.json, CPU: float32]")
      ->check(CLI::IsMember({"bfloat16", "float16", "float32"}));
  option("--device", device, "cuda, cuda:N or cpu [a GPU if there is one]")->type_name("NAME");
  option("--attention", attention,
         "sdpa, eager, flash_attention_2 or another of transformers' [the model's own]")
      ->type_name("NAME");
  option("--frozen", frozen, "A module that is not trained")
      ->check(CLI::IsMember({"vision", "audio"}));
  option("--image-size", image_size,
         "Sizes of the model's pictures in place of its directory's, as for 'isocost serve'")
      ->type_name("KEY=N,...");
  option("--most-patches", most_patches,
         "Patches of the largest microbatch; 0: by budget and memory")
      ->check(number_range(0, kMostUnits));
  option("--most-positions", most_positions,
         "Positions of the largest microbatch, 1500 for each sound; 0: by budget and memory")
      ->check(number_range(0, kMostUnits));
  option("--most-tokens", most_tokens, "Tokens of the largest microbatch; 0: by budget and memory")
      ->check(number_range(0, kMostUnits));
  command.add_flag("--json", json, "Print JSON instead of text")->excludes("--example");
}

constexpr const char* kModelProfileFooter =
    "Examples:\n  isocost model profile Qwen2.5-VL-7B-Instruct --budget 5m --output profile.json\n"
    "  isocost model profile DIR --dtype bfloat16 --attention flash_attention_2 --frozen vision\n"
    "  build/release/isocost model profile --example --budget 5m\n"
    "  isocost serve --data data/shards --profile profile.json\n"
    "A model is built with random weights by the Python package and transformers, its modules one\n"
    "at a time. Layers that do not fit in memory are extrapolated from those that do.\n"
    "Each load of the first grid (up to 15 per module) and of each cut is run at least 5 times:\n"
    "2 runs warm up, 3 runs count. These runs take about a minute for the example's model on\n"
    "one core; a smaller budget is exceeded.\n"
    "docs/model_profile.md says what is measured, and how to measure any other model.";

}  // namespace

void add_model_profile(CLI::App& app, Run& run) {
  CLI::App* model = app.add_subcommand("model", "Measure a model: 'isocost model profile'.");
  model->require_subcommand(1);
  add_command<ModelProfileArguments>(
      *model, run,
      {.name = "profile",
       .description = "Measure the seconds of a model's modules over a grid of loads, and write a "
                      "model profile.\n"
                      "A model of your own is measured in Python, by isocost.profile_model.",
       .footer = kModelProfileFooter},
      model_profile);
}

}  // namespace isocost::cli
