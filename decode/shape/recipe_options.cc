#include "decode/shape/recipe_options.h"

#include <array>
#include <charconv>
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

std::string size_flags(const RecipeOptions& options) {
  std::string flags;
  if (const auto* model = std::get_if<ModelRecipeOptions>(&options)) {
    if (!model->image_size.empty()) flags = " --image-size " + image_size_text(model->image_size);
    return flags;
  }
  const Native28Options standard;
  const auto& given = std::get<Native28Options>(options);
  const auto add = [&](std::string_view flag, auto member) {
    if (given.*member == standard.*member) return;
    std::array<char, 32> digits{};  // the shortest that read back
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), given.*member).ptr;
    flags += " " + std::string(flag) + " " + std::string(digits.data(), end);
  };
  add("--max-image-patches", &Native28Options::max_image_patches);
  add("--max-frame-patches", &Native28Options::max_frame_patches);
  add("--video-fps", &Native28Options::video_fps);
  add("--max-video-frames", &Native28Options::max_video_frames);
  add("--max-audio-seconds", &Native28Options::max_audio_seconds);
  add("--max-text-tokens", &Native28Options::max_text_tokens);
  return flags;
}

Status validate_recipe(const RecipeOptions& options) {
  const auto* native28 = std::get_if<Native28Options>(&options);
  return native28 == nullptr ? Status() : native28->validate();
}

}  // namespace isocost
