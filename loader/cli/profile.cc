#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "loader/cli/commands.h"
#include "loader/cli/console.h"

namespace isocost::cli {
namespace {

struct ProfileArguments {
  bool example = false;
  std::string out = "profile.json";
  std::string budget = "60s";
  int threads = 1;
};

// Replaces this process by the program that links libtorch; returns only where that fails.
Error start_example(const ProfileArguments& arguments) {
  std::error_code failure;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failure);
  const std::string program = (self.parent_path() / "profile_example").string();
  if (failure || !std::filesystem::exists(program, failure)) {
    return {ErrorCode::kNotFound,
            program + " is not there: Isocost was built without libtorch (ISOCOST_BUILD_TORCH)"};
  }
  // A rank of the demo computes with so many threads, its BLAS included.
  const std::string threads = std::to_string(arguments.threads);
  setenv("OPENBLAS_NUM_THREADS", threads.c_str(), 1);
  setenv("OMP_NUM_THREADS", threads.c_str(), 1);
  execl(program.c_str(), program.c_str(), "--out", arguments.out.c_str(), "--budget",
        arguments.budget.c_str(), "--threads", threads.c_str(), nullptr);
  return {ErrorCode::kIo, "cannot start " + program + ": " +
                              std::error_code(errno, std::system_category()).message()};
}

}  // namespace

void add_profile(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "profile",
      "Measure a model over a grid of loads; your own: isocost.profile_model in Python.");
  auto arguments = std::make_shared<ProfileArguments>();
  command->add_flag("--example", arguments->example, "The model of ./run demo")->required();
  command->add_option("--out", arguments->out, "Profile to write")
      ->type_name("FILE")
      ->capture_default_str();
  command->add_option("--budget", arguments->budget, "Time to spend")
      ->type_name("TIME")
      ->capture_default_str();
  command->add_option("--threads", arguments->threads, "Threads to compute with")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->footer(
      "Example:\n  isocost profile --example --budget 5m --out profile.json\n"
      "  isocost serve --shards data/shards --profile profile.json\n"
      "docs/profile.md says what is measured, and how to measure a model of your own.");
  command->callback(
      [arguments, &run] { run = [arguments] { return report(start_example(*arguments)); }; });
}

}  // namespace isocost::cli
