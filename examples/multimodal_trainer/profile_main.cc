// Measures the example model for the cost model; `isocost model profile --example` runs it.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <string>

#include "examples/multimodal_trainer/process.h"
#include "examples/multimodal_trainer/profile_example.h"

namespace isocost {
namespace {

Status run(const std::string& file, int threads, double budget_s) {
  ISOCOST_ASSIGN(const CostProfile profile, profile_new_example(threads, budget_s));
  std::ofstream out(file, std::ios::binary);
  out << profile.to_json() << std::flush;
  if (!out) return Error(ErrorCode::kIo, "cannot write " + file);
  return {};
}

}  // namespace
}  // namespace isocost

int main(int argc, char** argv) {
  CLI::App app("Measures the example model over a grid of loads.");
  std::string file = "profile.json";
  double budget_s = 60;
  int threads = 1;
  app.add_option("--output", file, "Model profile to write")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--budget", budget_s, "Time to measure, for example 90s or 5m")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"m", 60}},
                                        CLI::AsNumberWithUnit::UNIT_OPTIONAL))
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", threads, "Threads in which the model computes (BLAS)")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  isocost::keep_all_freed_memory();  // as the trainer does
  try {
    const isocost::Status status = isocost::run(file, threads, budget_s);
    if (status) return 0;
    std::fprintf(stderr, "profile_example: %s\n", status.error().to_string().c_str());
  } catch (const std::exception& error) {  // what libtorch throws
    std::fprintf(stderr, "profile_example: %s\n", error.what());
  }
  return 1;
}
