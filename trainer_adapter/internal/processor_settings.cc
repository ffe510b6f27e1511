#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <vector>

#include "base/json_object.h"
#include "trainer_adapter/normalise.h"

namespace isocost {
namespace {

constexpr const char* kOfPictures = "preprocessor_config.json";
constexpr const char* kOfAll = "processor_config.json";

// The numbers of CLIP's and Qwen's processors where a file names none (OPENAI_CLIP_MEAN and _STD
// of transformers). The node has the same defaults (decode/prepare/pixel_settings.h).
constexpr double kRescale = 1.0 / 255;
constexpr std::array<float, 3> kMean{0.48145466F, 0.4578275F, 0.40821073F};
constexpr std::array<float, 3> kDeviation{0.26862954F, 0.26130258F, 0.27577711F};

constexpr JsonFormat kFormat{
    .name = "processor settings", .max_bytes = std::size_t{1} << 20, .max_depth = 16};

// Returns the settings of the image processor. `file` is set to the file that has them.
Result<JsonObject> settings_of(const std::filesystem::path& directory,
                               std::filesystem::path& file) {
  file = directory / kOfPictures;
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) return JsonObject::load(file, kFormat);
  file = directory / kOfAll;
  if (!std::filesystem::exists(file, ignored)) {
    return Error(ErrorCode::kNotFound, directory.string() + ": has neither " + kOfPictures +
                                           " nor " + kOfAll +
                                           ": give the directory that transformers saved");
  }
  ISOCOST_ASSIGN(const JsonObject all, JsonObject::load(file, kFormat));
  return all.object("image_processor");
}

// Returns whether a step is on, which it is unless the settings say otherwise.
Result<bool> does(const JsonObject& settings, std::string_view step) {
  if (!settings.has(step)) return true;
  return settings.flag(step);
}

Status read_by_channel(const JsonObject& settings, std::string_view key, float least,
                       std::array<float, 3>& into) {
  ISOCOST_ASSIGN(const std::vector<double> values, settings.amounts(key, into.size()));
  const bool usable = values.size() == into.size() &&
                      std::all_of(values.begin(), values.end(),
                                  [&](double value) { return static_cast<float>(value) >= least; });
  if (!usable) return settings.wrong(key, "must have three numbers, and no deviation of 0");
  std::transform(values.begin(), values.end(), into.begin(),
                 [](double value) { return static_cast<float>(value); });
  return {};
}

Result<PixelArithmetic> read(const JsonObject& settings) {
  PixelArithmetic arithmetic;
  ISOCOST_ASSIGN(const bool rescales, does(settings, "do_rescale"));
  if (rescales) {
    arithmetic.rescale = kRescale;
    if (settings.has("rescale_factor")) {
      ISOCOST_ASSIGN(arithmetic.rescale, settings.amount("rescale_factor"));
    }
  }
  ISOCOST_ASSIGN(const bool normalises, does(settings, "do_normalize"));
  if (!normalises) return arithmetic;
  arithmetic.mean = kMean;
  arithmetic.deviation = kDeviation;
  if (settings.has("image_mean")) {
    ISOCOST_TRY(read_by_channel(settings, "image_mean", 0, arithmetic.mean));
  }
  if (settings.has("image_std")) {
    ISOCOST_TRY(read_by_channel(settings, "image_std", 1e-6F, arithmetic.deviation));
  }
  return arithmetic;
}

}  // namespace

Result<PixelArithmetic> PixelArithmetic::of_model(const std::filesystem::path& directory) {
  std::filesystem::path file;
  const auto settings = settings_of(directory, file);
  if (!settings) {
    if (settings.error().code() != ErrorCode::kCorrupt) return settings.error();
    return error_of_file(settings.error(), file);
  }
  auto arithmetic = read(*settings);
  if (!arithmetic) return error_of_file(arithmetic.error(), file);
  return arithmetic;
}

std::array<float, PixelTable::extent> PixelArithmetic::table() const {
  std::array<float, PixelTable::extent> table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::size_t channel = i / 256;
    const auto scaled = static_cast<float>(static_cast<double>(i % 256) * rescale);
    table.at(i) = (scaled - mean.at(channel)) / deviation.at(channel);
  }
  return table;
}

}  // namespace isocost
