#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decode/shape/image_size.h"
#include "decode/shape/recipe_options.h"

namespace isocost {

/// Limit of the ids of tokens in a model's files.
inline constexpr std::int64_t kMostTokenId = std::int64_t{1} << 31;

/// One JSON object of a model's files. A reader asks for each key that it knows; `check_all_asked`
/// then refuses a setting that was not asked for, so none is ignored. A value of null counts as
/// absent. Errors name file, key and value.
class Settings {
 public:
  Settings() = default;
  Settings(nlohmann::json object, std::string file)
      : object_(std::move(object)), file_(std::move(file)) {}

  bool has(std::string_view key) const;
  /// Returns an integer. Errors: kUnsupported for another type or a value out of range and, without
  /// a default, for a missing key.
  Result<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most,
                               std::optional<std::int64_t> otherwise = std::nullopt);
  Result<double> number(std::string_view key, double otherwise);
  Result<std::vector<double>> numbers(std::string_view key, const std::vector<double>& otherwise);
  /// Returns a list. Errors: kUnsupported unless it is a list of at most `most` entries.
  Result<nlohmann::json> list(std::string_view key, std::size_t most);
  Result<std::string> text(std::string_view key);
  Result<std::string> choice(std::string_view key, std::initializer_list<std::string_view> choices,
                             std::optional<std::string_view> otherwise = std::nullopt);
  Result<bool> flag(std::string_view key, bool otherwise);
  Result<Settings> object(std::string_view key);
  /// Accepts only this value. Errors: kUnsupported if the key has another one.
  Status only(std::string_view key, const nlohmann::json& value);
  /// Sets keys to other values than the file has. Errors then name these beside the file.
  void replace(const ImageSize& values);
  /// Marks settings as asked for that change nothing here.
  void ignore(std::initializer_list<std::string_view> keys);
  Status check_all_asked() const;

  const std::string& file() const { return file_; }
  const nlohmann::json& values() const { return object_; }

 private:
  const nlohmann::json* find(std::string_view key);
  Error refused(std::string_view key, std::string_view why) const;

  nlohmann::json object_;
  std::string file_;
  std::set<std::string, std::less<>> asked_;
};

/// Files of a model's directory that describe how its media are prepared.
struct ModelFiles {
  std::filesystem::path directory;
  std::string model_type;  ///< From config.json.
  Settings config;  ///< From config.json: mostly the architecture, which recipes do not read.
  // The next five are those of ModelRecipeOptions.
  ResizeOrder order = ResizeOrder::kWidthFirst;
  Exactness exactness = Exactness::kExact;
  Alpha alpha = Alpha::kWhite;
  Truncated truncated = Truncated::kBad;
  ImageSize image_size = {};
  /// preprocessor_config.json, or its part of processor_config.json: the settings of an image
  /// processor, or of the feature extractor of a model for sound.
  Settings image_processor;
  /// Settings that AutoVideoProcessor reads: processor_config.json's part,
  /// video_preprocessor_config.json, or the image processor's own; an empty object if there is none
  /// of them.
  Settings video_processor;
  /// generation_config.json, or nothing: mostly how text is sampled, which recipes do not read.
  Settings generation;
  /// processor_config.json, or nothing. Older directories keep there how text and media are
  /// combined; newer ones, all settings of processors.
  Settings processor;
};

/// Returns the id of a token that tokenizer_config.json has under this name, such as
/// "start_image_token". Errors: kUnsupported without such a name or token; kCorrupt; kIo.
Result<std::int64_t> special_token_id(const std::filesystem::path& directory,
                                      const std::string& name);

/// Reads the files of a directory. Errors: kNotFound with the file that is missing and what writes
/// it; kCorrupt; kIo.
Result<ModelFiles> read_model_files(const std::filesystem::path& directory);

}  // namespace isocost
