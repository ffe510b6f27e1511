#include "cli/plan/model_measurement.h"

#include <cstdio>
#include <map>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/common/number_range.h"
#include "cli/common/python_command.h"

namespace isocost::cli {
namespace {

constexpr double kDefaultBudgetS = 60;

constexpr double kLeastSeconds = 1e-3;
constexpr double kMostSeconds = 7 * 24 * 3600;

// Returns whether the kernel has a GPU that PyTorch computes on: NVIDIA's or AMD's.
bool has_gpu() {
  std::error_code failed;
  return std::filesystem::exists("/dev/nvidiactl", failed) ||
         std::filesystem::exists("/dev/kfd", failed);
}

std::string setting(const GivenSettings& settings, std::string_view name) {
  const Setting* const found = settings.find(name);
  return found == nullptr ? "" : found->value;
}

}  // namespace

void ModelMeasurement::add_to(CLI::App& command) {
  command
      .add_option("--device", device,
                  "Where --model is measured without --profile: cuda, cuda:N or cpu [a GPU of this "
                  "machine]")
      ->type_name("NAME");
  command.add_option("--budget", budget_s, "Time to measure the model: 30s, 5m, 1h [60s]")
      ->type_name("TIME")
      ->transform(
          CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"m", 60}, {"h", 3600}}))
      ->check(number_range(kLeastSeconds, kMostSeconds));
}

Status ModelMeasurement::check(const std::string& model) const {
  if (!device.empty() || has_gpu()) return {};
  return Error(ErrorCode::kInvalidArgument,
               "--model " + model +
                   " has no model profile, and this machine has no GPU to measure it: run 'isocost "
                   "model profile " +
                   model +
                   " --output profile.json' on a machine of the job and give --profile "
                   "profile.json, or run this command there; --device cpu measures it here");
}

Status ModelMeasurement::run(const GivenSettings& recipe, const std::filesystem::path& file,
                             const std::stop_token& stop) const {
  const std::string model = setting(recipe, "model");
  std::vector<std::string> words = {model, "--output", file.string(), "--budget",
                                    std::to_string(budget_s.value_or(kDefaultBudgetS))};
  if (!device.empty()) words.insert(words.end(), {"--device", device});
  const std::string image_size = setting(recipe, "image_size");
  if (!image_size.empty()) words.insert(words.end(), {"--image-size", image_size});
  std::fprintf(stderr, "measuring the model in %s\n", model.c_str());
  const auto told = [](std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  };
  ISOCOST_ASSIGN(const int status, call_python({"isocost plan", "isocost.model_profile",
                                                "isocost torch transformers"},
                                               words, told, stop));
  if (status == 0) return {};
  return Error(ErrorCode::kUnavailable,
               "the model was not measured: see above, and try 'isocost model profile " + model +
                   "', which has more options");
}

std::filesystem::path measured_profile(const std::filesystem::path& layout) {
  std::filesystem::path file = layout;
  file.replace_filename(layout.stem().string() + "_profile.json");
  return file;
}

}  // namespace isocost::cli
