// Qwen2-VL and Qwen2.5-VL: a picture keeps its aspect, its sides are multiples of two patches, and
// its pixels lie within bounds. The oracle is Qwen2VLImageProcessor of transformers.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "decode/internal/exact_image.h"
#include "decode/internal/media_model.h"
#include "decode/internal/model_files.h"
#include "decode/internal/patch_grid.h"
#include "decode/internal/pixel_settings.h"
#include "decode/internal/recipe_family.h"

namespace isocost {
namespace {

// What the processor takes where its file does not say.
constexpr std::int64_t kMinPixels = std::int64_t{56} * 56;
constexpr std::int64_t kMaxPixels = std::int64_t{28} * 28 * 1280;
constexpr std::int64_t kMostPixels = std::int64_t{1} << 31;
constexpr std::int32_t kTemporalPatch = 2;
constexpr double kMostAspect = 200;

struct QwenVlOptions : PixelSettings {
  std::int64_t min_pixels = kMinPixels;
  std::int64_t max_pixels = kMaxPixels;
  std::int64_t image_token_id = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(QwenVlOptions, min_pixels, max_pixels, resample, resize_order,
                                   exactness, alpha, image_token_id, rescale_factor, image_mean,
                                   image_std)

// The number of groups of 28 pixels along each side, in the arithmetic of `smart_resize`, where
// `round` is Python's, to even.
Result<PatchGrid> smart_grid(std::int32_t width, std::int32_t height,
                             const QwenVlOptions& options) {
  constexpr double kGroup = kGroupSide;
  const double aspect = static_cast<double>(std::max(width, height)) / std::min(width, height);
  if (aspect > kMostAspect) {
    return Error(ErrorCode::kUnsupported,
                 "a picture of " + std::to_string(width) + "x" + std::to_string(height) +
                     ": the model's processor refuses sides that differ more than 200 times");
  }
  double across = std::nearbyint(width / kGroup);
  double down = std::nearbyint(height / kGroup);
  const double pixels = static_cast<double>(height) * width;
  if (across * down * kGroup * kGroup > static_cast<double>(options.max_pixels)) {
    const double beta = std::sqrt(pixels / static_cast<double>(options.max_pixels));
    across = std::max(1.0, std::floor(width / beta / kGroup));
    down = std::max(1.0, std::floor(height / beta / kGroup));
  } else if (across * down * kGroup * kGroup < static_cast<double>(options.min_pixels)) {
    const double beta = std::sqrt(static_cast<double>(options.min_pixels) / pixels);
    across = std::ceil(width * beta / kGroup);
    down = std::ceil(height * beta / kGroup);
  }
  return PatchGrid{2 * static_cast<std::int32_t>(down), 2 * static_cast<std::int32_t>(across)};
}

class QwenVl final : public MediaModel {
 public:
  explicit QwenVl(QwenVlOptions options)
      : options_(std::move(options)), resize_(options_.resize()), decoding_(options_.decoding()) {}

  std::string description() const override {
    nlohmann::json json = options_;
    json["family"] = "qwen2_vl";
    return json.dump();
  }

 private:
  std::optional<MediaTokens> media_tokens(Modality modality) const override {
    if (modality != Modality::kImage) return std::nullopt;
    return MediaTokens{.id = options_.image_token_id};
  }

  Result<PartPlan> plan_medium(const PartShape& shape, const SampleShape&) const override {
    PartPlan plan;
    ISOCOST_ASSIGN(plan.grid, smart_grid(shape.width, shape.height, options_));
    plan.images = 1;
    plan.tokens = plan.grid.tokens();
    return plan;
  }

  std::int64_t medium_bytes(const PartShape& shape, const PartPlan& plan) const override {
    return exact_image_working_set_bytes(shape, plan.grid, resize_);
  }

  Status add_medium(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to,
                    const DecodeLimit&) const override {
    return exact_image_patches(*bytes.source, *bytes.shape, plan.grid, resize_, decoding_,
                               to.next_image(plan.grid));
  }

  const QwenVlOptions options_;
  const ExactResize resize_;
  const PictureDecoding decoding_;
};

// The older files name the bounds themselves, which then count; the newer ones have them in `size`.
Status read_bounds(Settings& settings, QwenVlOptions& options) {
  if (settings.has("size")) {
    ISOCOST_ASSIGN(Settings size, settings.object("size"));
    ISOCOST_ASSIGN(options.min_pixels,
                   size.integer("shortest_edge", 1, kMostPixels, options.min_pixels));
    ISOCOST_ASSIGN(options.max_pixels,
                   size.integer("longest_edge", 1, kMostPixels, options.max_pixels));
    ISOCOST_TRY(size.check_all_asked());
  }
  ISOCOST_ASSIGN(options.min_pixels,
                 settings.integer("min_pixels", 1, kMostPixels, options.min_pixels));
  ISOCOST_ASSIGN(options.max_pixels,
                 settings.integer("max_pixels", 1, kMostPixels, options.max_pixels));
  if (options.min_pixels <= options.max_pixels) return {};
  return Error(ErrorCode::kUnsupported,
               settings.file() + ": min_pixels is " + std::to_string(options.min_pixels) +
                   ", more than max_pixels, which is " + std::to_string(options.max_pixels));
}

Status read_processor(Settings& settings, QwenVlOptions& options) {
  ISOCOST_TRY(read_bounds(settings, options));
  ISOCOST_TRY(read_pixels(settings, options));
  ISOCOST_TRY(settings.only("patch_size", kPatchSide));
  ISOCOST_TRY(settings.only("merge_size", kGroupSide / kPatchSide));
  ISOCOST_TRY(settings.only("temporal_patch_size", kTemporalPatch));
  ISOCOST_TRY(settings.only("do_center_crop", false));
  return settings.check_all_asked();
}

}  // namespace

Result<Family> read_qwen2_vl(ModelFiles& files) {
  QwenVlOptions options;
  constexpr std::int64_t kMostId = std::int64_t{1} << 31;
  ISOCOST_ASSIGN(options.image_token_id, files.config.integer("image_token_id", 0, kMostId));
  ISOCOST_ASSIGN(Settings vision, files.config.object("vision_config"));
  ISOCOST_TRY(vision.only("patch_size", kPatchSide));
  ISOCOST_TRY(vision.only("spatial_merge_size", kGroupSide / kPatchSide));
  ISOCOST_TRY(vision.only("temporal_patch_size", kTemporalPatch));
  ISOCOST_TRY(read_processor(files.image_processor, options));
  options.take_options(files);
  return std::make_shared<const QwenVl>(std::move(options));
}

Result<Family> parse_qwen2_vl(std::string_view description) {
  const auto json = nlohmann::json::parse(description, nullptr, /*allow_exceptions=*/false);
  try {
    return std::make_shared<const QwenVl>(json.get<QwenVlOptions>());
  } catch (const nlohmann::json::exception& error) {
    return Error(ErrorCode::kCorrupt, std::string("description of qwen2_vl: ") + error.what());
  }
}

}  // namespace isocost
