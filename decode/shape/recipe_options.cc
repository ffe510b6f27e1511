#include "decode/shape/recipe_options.h"

#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {
namespace {

std::string number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// Checks a range. NaN lies in none.
Status check(std::string_view field, double value, double least, double most) {
  if (value >= least && value <= most) return {};
  return Error(ErrorCode::kInvalidArgument, "recipe: " + std::string(field) + " is " +
                                                number(value) + "; it must be " + number(least) +
                                                " to " + number(most));
}

}  // namespace

Status Native28Options::validate() const {
  constexpr double kMostPatches = 1 << 20;
  ISOCOST_TRY(check("max_image_patches", max_image_patches, 4, kMostPatches));
  ISOCOST_TRY(check("max_frame_patches", max_frame_patches, 4, kMostPatches));
  ISOCOST_TRY(check("video_fps", video_fps, 0.001, 1000));
  ISOCOST_TRY(check("max_video_frames", max_video_frames, 1, 1 << 16));
  ISOCOST_TRY(check("max_audio_seconds", max_audio_seconds, 0.01, 86'400));
  return check("max_text_tokens", max_text_tokens, 1, 1 << 24);
}

std::filesystem::path model_directory(const RecipeOptions& options) {
  const auto* model = std::get_if<ModelRecipeOptions>(&options);
  return model == nullptr ? std::filesystem::path() : model->directory;
}

Status validate_recipe(const RecipeOptions& options) {
  const auto* native28 = std::get_if<Native28Options>(&options);
  return native28 == nullptr ? Status() : native28->validate();
}

}  // namespace isocost
