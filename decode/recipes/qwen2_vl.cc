// Qwen2-VL and Qwen2.5-VL: a picture keeps its aspect, its sides are multiples of two patches, and
// its pixels lie within bounds. The oracle is Qwen2VLImageProcessor of transformers.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/result.h"
#include "base/tensor_schema.h"
#include "decode/decode_limit.h"
#include "decode/internal/exact_image.h"
#include "decode/internal/media_bytes.h"
#include "decode/internal/model_files.h"
#include "decode/internal/patch_grid.h"
#include "decode/internal/recipe_family.h"
#include "decode/tokens.h"

namespace isocost {
namespace {

// What the processor takes where its file does not say.
constexpr std::int64_t kMinPixels = std::int64_t{56} * 56;
constexpr std::int64_t kMaxPixels = std::int64_t{28} * 28 * 1280;
constexpr std::int64_t kMostPixels = std::int64_t{1} << 31;
constexpr std::int32_t kTemporalPatch = 2;
constexpr double kMostAspect = 200;

struct QwenVlOptions {
  std::int64_t min_pixels = kMinPixels;
  std::int64_t max_pixels = kMaxPixels;
  std::int64_t resample = 3;      // as Pillow counts its filters
  std::int64_t resize_order = 0;  // ResizeOrder
  std::int64_t image_token_id = 0;
  // Of the client, which normalises.
  double rescale_factor = 1.0 / 255;
  std::vector<double> image_mean = {0.48145466, 0.4578275, 0.40821073};
  std::vector<double> image_std = {0.26862954, 0.26130258, 0.27577711};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(QwenVlOptions, min_pixels, max_pixels, resample, resize_order,
                                   image_token_id, rescale_factor, image_mean, image_std)

ResampleFilter filter_of(std::int64_t resample) {
  if (resample == 1) return ResampleFilter::kLanczos;
  return resample == 2 ? ResampleFilter::kBilinear : ResampleFilter::kBicubic;
}

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

class QwenVl final : public RecipeFamily {
 public:
  explicit QwenVl(QwenVlOptions options)
      : options_(std::move(options)),
        resize_{filter_of(options_.resample), static_cast<ResizeOrder>(options_.resize_order)} {}

  std::string description() const override {
    nlohmann::json json = options_;
    json["family"] = "qwen2_vl";
    return json.dump();
  }

  Result<PartPlan> plan_part(const PartShape& shape) const override {
    PartPlan plan;
    if (shape.format == MediaFormat::kTokens) {
      if (shape.text_tokens < 0 || shape.text_tokens > shape.encoded_bytes ||
          shape.label_tokens < 0 || shape.label_tokens > shape.text_tokens) {
        return impossible_part(shape, "a possible number of tokens");
      }
      plan.text_tokens = shape.text_tokens;
      plan.label_tokens = shape.label_tokens;
      return plan;
    }
    if (shape.modality != Modality::kImage) {
      return Error(ErrorCode::kUnsupported,
                   std::string(modality_name(shape.modality)) +
                       " parts are not supported yet with models of type qwen2_vl");
    }
    ISOCOST_TRY(check_picture(shape));
    ISOCOST_ASSIGN(plan.grid, smart_grid(shape.width, shape.height, options_));
    plan.images = 1;
    return plan;
  }

  Status plan_sample(const SampleShape& shape, SamplePlan&) const override {
    const bool tokens_first = shape.parts.front().format == MediaFormat::kTokens;
    const auto tokens = std::ranges::count(shape.parts, MediaFormat::kTokens, &PartShape::format);
    if (tokens_first && tokens == 1) return {};
    return Error(ErrorCode::kInvalidArgument,
                 "its text has no tokens of this model; isocost tokenize makes them");
  }

  std::int64_t working_set_bytes(const PartShape& shape, const PartPlan& plan) const override {
    if (shape.format == MediaFormat::kTokens) return 3 * shape.encoded_bytes;
    return exact_image_working_set_bytes(shape, plan.grid, resize_);
  }

  Status add(const PartBytes& bytes, const SamplePlan& plan, std::size_t i, SampleTensors& to,
             const DecodeLimit&) const override {
    const PatchGrid grid = plan.parts[i].grid;
    if (bytes.shape->format == MediaFormat::kTokens) return add_tokens(bytes, plan, to);
    return exact_image_patches(*bytes.source, *bytes.shape, grid, resize_, to.next_image(grid));
  }

 private:
  Status add_tokens(const PartBytes& bytes, const SamplePlan& plan, SampleTensors& to) const;
  Status check_tokens(const Tokens& tokens, const SamplePlan& plan) const;

  const QwenVlOptions options_;
  const ExactResize resize_;
};

// What the sidecar counted must be what it holds, since the plan has made room for just that.
Status QwenVl::check_tokens(const Tokens& tokens, const SamplePlan& plan) const {
  std::int64_t images = 0;
  std::int64_t labelled = 0;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const bool is_image = tokens.ids[i] == options_.image_token_id;
    if (tokens.labelled[i] && (is_image || i == 0)) {
      return corrupt("its tokens have a label that nothing can predict");
    }
    images += is_image ? 1 : 0;
    labelled += tokens.labelled[i] ? 1 : 0;
  }
  const PartPlan& text = plan.parts.front();
  if (images != plan.images) {
    return corrupt("its text has " + counted(static_cast<std::size_t>(images), "placeholder") +
                   " for " + counted(static_cast<std::size_t>(plan.images), "image"));
  }
  if (std::ssize(tokens.ids) - images != text.text_tokens || labelled != text.label_tokens) {
    return corrupt("its tokens are not those that were counted");
  }
  return {};
}

Status QwenVl::add_tokens(const PartBytes& bytes, const SamplePlan& plan, SampleTensors& to) const {
  ISOCOST_TRY(check_size(bytes));
  ISOCOST_ASSIGN(const auto read,
                 read_some(*bytes.source, 0, static_cast<std::size_t>(bytes.source->size())));
  ISOCOST_ASSIGN(const Tokens tokens, decode_tokens(std::as_bytes(std::span(read))));
  ISOCOST_TRY(check_tokens(tokens, plan));
  auto image = plan.parts.begin();
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const std::int64_t id = tokens.ids[i];
    if (id == options_.image_token_id) {
      ++image;  // the first part is the text
      to.append(id, kIgnoredLabel, image->grid.tokens());
    } else {
      to.append(id, tokens.labelled[i] ? id : kIgnoredLabel);
    }
  }
  return {};
}

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
  ISOCOST_ASSIGN(options.resample, settings.integer("resample", 1, 3, options.resample));
  ISOCOST_ASSIGN(options.rescale_factor, settings.number("rescale_factor", options.rescale_factor));
  ISOCOST_ASSIGN(options.image_mean, settings.numbers("image_mean", options.image_mean));
  ISOCOST_ASSIGN(options.image_std, settings.numbers("image_std", options.image_std));
  ISOCOST_TRY(settings.only("patch_size", kPatchSide));
  ISOCOST_TRY(settings.only("merge_size", kGroupSide / kPatchSide));
  ISOCOST_TRY(settings.only("temporal_patch_size", kTemporalPatch));
  for (const char* step : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"}) {
    ISOCOST_TRY(settings.only(step, true));
  }
  for (const char* step : {"do_center_crop", "do_pad"}) ISOCOST_TRY(settings.only(step, false));
  ISOCOST_TRY(settings.only("data_format", "channels_first"));
  // They name classes, or say how the processor itself computes.
  settings.ignore({"processor_class", "image_processor_type", "feature_extractor_type",
                   "default_to_square", "device", "disable_grouping", "return_tensors",
                   "input_data_format", "backend"});
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
  options.resize_order = static_cast<std::int64_t>(files.order);
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
