#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include "base/output_file.h"
#include "cli/commands.h"
#include "cli/number_range.h"

namespace isocost::cli {
namespace {

constexpr double kLeastSeconds = 1e-3;
constexpr double kMostSeconds = 7 * 24 * 3600;

struct ModelProfileArguments {
  bool example = false;
  std::string output = "profile.json";
  double budget_s = 60;
  int threads = 1;

  void add_to(CLI::App& command);
};

// Replaces this process by the program that links libtorch. Returns only if that fails.
Error start_example(const ModelProfileArguments& arguments) {
  if (arguments.output.empty())
    return {ErrorCode::kInvalidArgument, "--output is empty; name a file"};
  const Status writable = check_output_file("--output", arguments.output);
  if (!writable) return writable.error();
  std::error_code failure;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failure);
  const std::string program = (self.parent_path() / "profile_example").string();
  if (failure || !std::filesystem::exists(program, failure)) {
    return {ErrorCode::kNotFound,
            program + " does not exist: Isocost was built without libtorch (ISOCOST_BUILD_TORCH)"};
  }
  // BLAS computes with as many threads as a rank of the demo.
  const std::string threads = std::to_string(arguments.threads);
  setenv("OPENBLAS_NUM_THREADS", threads.c_str(), 1);
  setenv("OMP_NUM_THREADS", threads.c_str(), 1);
  const std::string budget = std::to_string(arguments.budget_s);
  execl(program.c_str(), program.c_str(), "--output", arguments.output.c_str(), "--budget",
        budget.c_str(), "--threads", threads.c_str(), nullptr);
  return {ErrorCode::kIo, "cannot start " + program + ": " +
                              std::error_code(errno, std::system_category()).message()};
}

void ModelProfileArguments::add_to(CLI::App& command) {
  command.add_flag("--example", example, "Measure the model of ./run demo")->required();
  command.add_option("--output", output, "Model profile to write")
      ->type_name("FILE")
      ->capture_default_str();
  command.add_option("--budget", budget_s, "Time to spend: 30s, 5m, 1h, a week at most [60s]")
      ->type_name("TIME")
      ->transform(
          CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"m", 60}, {"h", 3600}}))
      ->check(number_range(kLeastSeconds, kMostSeconds));
  command.add_option("--threads", threads, "Threads in which the model computes (BLAS)")
      ->check(number_range(1, 1024))
      ->capture_default_str();
}

constexpr const char* kFooter =
    "Examples:\n  isocost model profile --example --budget 5m --output profile.json\n"
    "  isocost serve --data data/shards --profile profile.json\n"
    "Each load of the first grid (up to 15 per module) and of each cut is run at least 5 times:\n"
    "2 runs warm up, 3 runs count. These runs take about a minute for the example's model on\n"
    "one core; a smaller budget is exceeded.\n"
    "docs/model_profile.md says what is measured, and how to measure a model of your own.";

}  // namespace

void add_model_profile(CLI::App& app, Run& run) {
  CLI::App* model = app.add_subcommand("model", "Measure a model: 'isocost model profile'.");
  model->require_subcommand(1);
  add_command<ModelProfileArguments>(
      *model, run,
      {.name = "profile",
       .description = "Measure the seconds of a model's modules over a grid of loads, and write a "
                      "model profile.\n"
                      "Your own model is measured in Python, by isocost.profile_model.",
       .footer = kFooter},
      start_example);
}

}  // namespace isocost::cli
