// LLaVA-1.5 and similar models: every picture is resized to the encoder's size, and becomes the
// same number of tokens. The oracles are CLIPImageProcessor, SiglipImageProcessor and
// LlavaProcessor of transformers.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "decode/prepare/exact_image.h"
#include "decode/prepare/media_model.h"
#include "decode/prepare/model_files.h"
#include "decode/prepare/pixel_settings.h"
#include "decode/prepare/recipe_family.h"
#include "decode/recipes/families.h"
#include "decode/recipes/internal/family_description.h"
#include "decode/resize/patch_grid.h"

namespace isocost {
namespace {

constexpr std::int64_t kDefaultSide = 224;  // the default of transformers' encoders and processors

struct LlavaOptions : PixelSettings {
  std::int64_t shortest_edge =
      0;  // the picture's shorter side after resizing; 0: its sides are the next two
  std::int64_t resized_width = 0;
  std::int64_t resized_height = 0;
  std::int64_t width = 0;  // size of the middle that the model sees
  std::int64_t height = 0;
  std::int64_t tokens = 0;  // tokens per picture
  std::int64_t image_token_id = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LlavaOptions, shortest_edge, resized_width, resized_height,
                                   width, height, tokens, image_token_id, resample, resize_order,
                                   exactness, alpha, truncated, rescale_factor, image_mean,
                                   image_std)

// Returns where the middle begins; negative where the middle is longer than the side.
std::int32_t margin(std::int64_t side, std::int64_t middle) {
  const std::int64_t difference = side - middle;
  return static_cast<std::int32_t>(difference >= 0 ? difference / 2 : (difference - 1) / 2);
}

class Llava final : public MediaModel {
 public:
  explicit Llava(LlavaOptions options)
      : options_(std::move(options)),
        resize_(options_.resize()),
        decoding_(options_.decoding()),
        grid_(covering_grid(options_.width, options_.height)) {}

  std::string description() const override { return description_of("llava", options_); }

 private:
  std::optional<MediaTokens> media_tokens(Modality modality) const override {
    if (modality != Modality::kImage) return std::nullopt;
    return MediaTokens{.id = options_.image_token_id};
  }

  Result<PartPlan> plan_medium(const PartShape& shape, const SampleShape&) const override {
    if (std::max(resized(shape).width, resized(shape).height) >
        std::numeric_limits<std::int32_t>::max()) {
      return Error(ErrorCode::kUnsupported, "a picture of " + std::to_string(shape.width) + "x" +
                                                std::to_string(shape.height) +
                                                ": its sides differ too much to be resized");
    }
    PartPlan plan;
    plan.grid = grid_;
    plan.images = 1;
    plan.tokens = options_.tokens;
    return plan;
  }

  Result<PartPlan> plan_smallest(PartShape& shape) const override {
    shape.width = static_cast<std::int32_t>(options_.width);
    shape.height = static_cast<std::int32_t>(options_.height);
    return plan_medium(shape, {});
  }

  std::int64_t medium_bytes(const PartShape& shape, const PartPlan&) const override {
    return framed_image_bytes(shape, framing(shape), resize_);
  }

  Status add_medium(const PartBytes& bytes, const PartPlan&, SampleTensors& to,
                    const DecodeLimit& limit) const override {
    return framed_image_patches(*bytes.source, *bytes.shape, framing(*bytes.shape), grid_, resize_,
                                decoding_, to.next_image(grid_), limit);
  }

  // Resizes like transformers' get_resize_output_image_size, which truncates the longer side to
  // whole pixels.
  PixelSize resized(const PartShape& shape) const {
    const std::int64_t edge = options_.shortest_edge;
    if (edge == 0) return {options_.resized_width, options_.resized_height};
    if (shape.width <= shape.height) return {edge, edge * shape.height / shape.width};
    return {edge * shape.width / shape.height, edge};
  }

  Framing framing(const PartShape& shape) const {
    const PixelSize size = resized(shape);
    return {
        static_cast<std::int32_t>(size.width),
        static_cast<std::int32_t>(size.height),
        {margin(size.width, options_.width), margin(size.height, options_.height),
         static_cast<std::int32_t>(options_.width), static_cast<std::int32_t>(options_.height)}};
  }

  const LlavaOptions options_;
  const ExactResize resize_;
  const PictureDecoding decoding_;
  const PatchGrid grid_;
};

// Reads the size to which a picture is resized, which is the model's unless the model sees only its
// middle.
Status read_resized(Settings& settings, LlavaOptions& options) {
  options.shortest_edge = kDefaultSide;
  if (!settings.has("size")) return {};
  ISOCOST_ASSIGN(Settings size, settings.object("size"));
  if (size.has("shortest_edge")) {
    ISOCOST_ASSIGN(options.shortest_edge, size.integer("shortest_edge", 1, kMostSide));
    return size.check_all_asked();
  }
  ISOCOST_ASSIGN(const PixelSize fixed, read_size(settings, "size", {}));
  options.shortest_edge = 0;
  options.resized_width = options.width = fixed.width;
  options.resized_height = options.height = fixed.height;
  return {};
}

Status read_clip(Settings& settings, LlavaOptions& options) {
  ISOCOST_TRY(read_resized(settings, options));
  ISOCOST_ASSIGN(const bool crops, settings.flag("do_center_crop", true));
  if (crops) {
    ISOCOST_ASSIGN(const PixelSize middle,
                   read_size(settings, "crop_size", {kDefaultSide, kDefaultSide}));
    options.width = middle.width;
    options.height = middle.height;
    return {};
  }
  settings.ignore({"crop_size"});
  if (options.shortest_edge == 0) return {};
  return Error(ErrorCode::kUnsupported,
               settings.file() +
                   ": do_center_crop is false and size has a shortest_edge, which leaves pictures "
                   "in many sizes");
}

Status read_siglip(Settings& settings, LlavaOptions& options) {
  options.image_mean = options.image_std = {0.5, 0.5, 0.5};
  ISOCOST_TRY(settings.only("do_center_crop", false));
  ISOCOST_ASSIGN(const PixelSize size, read_size(settings, "size", {kDefaultSide, kDefaultSide}));
  options.resized_width = options.width = size.width;
  options.resized_height = options.height = size.height;
  return {};
}

Status read_image_processor(Settings& settings, LlavaOptions& options) {
  ISOCOST_ASSIGN(const std::string type,
                 settings.choice("image_processor_type",
                                 {"CLIPImageProcessor", "CLIPImageProcessorFast",
                                  "CLIPImageProcessorPil", "SiglipImageProcessor",
                                  "SiglipImageProcessorFast", "SiglipImageProcessorPil"}));
  ISOCOST_TRY(type.starts_with("CLIP") ? read_clip(settings, options)
                                       : read_siglip(settings, options));
  ISOCOST_TRY(read_pixels(settings, options));
  return settings.check_all_asked();
}

// Reads the encoder, which takes pictures of one size. transformers' processor counts tokens by its
// own numbers, which must be the encoder's. image_seq_length is not checked: nothing reads it, and
// LLaVA-Interleave's is wrong.
Status read_encoder(ModelFiles& files, LlavaOptions& options) {
  ISOCOST_ASSIGN(Settings vision, files.config.object("vision_config"));
  ISOCOST_ASSIGN(const std::string type,
                 vision.choice("model_type", {"clip_vision_model", "siglip_vision_model"},
                               "clip_vision_model"));
  ISOCOST_TRY(vision.integer("patch_size", kPatchSide, kPatchSide));
  ISOCOST_ASSIGN(const std::int64_t side,
                 vision.integer("image_size", kPatchSide, kMostSide, kDefaultSide));
  if (PixelSize{options.width, options.height} != PixelSize{side, side}) {
    return Error(ErrorCode::kUnsupported,
                 vision.file() + ": image_size is " + std::to_string(side) +
                     ", and the image processor makes pictures of " +
                     std::to_string(options.width) + "x" + std::to_string(options.height));
  }
  ISOCOST_ASSIGN(const std::string strategy, files.config.choice("vision_feature_select_strategy",
                                                                 {"default", "full"}, "default"));
  const std::int64_t class_tokens = type == "clip_vision_model" ? 1 : 0;
  ISOCOST_TRY(files.processor.only("patch_size", kPatchSide));
  ISOCOST_TRY(files.processor.only("vision_feature_select_strategy", strategy));
  ISOCOST_TRY(files.processor.only("num_additional_image_tokens", class_tokens));
  const std::int64_t patches = (side / kPatchSide) * (side / kPatchSide);
  options.tokens = patches + class_tokens - (strategy == "default" ? 1 : 0);
  files.processor.ignore({"image_processor", "image_token", "processor_class"});
  return files.processor.check_all_asked();
}

}  // namespace

Result<Family> read_llava(ModelFiles& files, const ModelType&) {
  LlavaOptions options;
  const char* id = files.config.has("image_token_id") ? "image_token_id" : "image_token_index";
  ISOCOST_ASSIGN(options.image_token_id, files.config.integer(id, 0, kMostTokenId));
  ISOCOST_TRY(read_image_processor(files.image_processor, options));
  ISOCOST_TRY(read_encoder(files, options));
  options.take_options(files);
  return std::make_shared<const Llava>(std::move(options));
}

Result<Family> parse_llava(std::string_view description) {
  ISOCOST_ASSIGN(LlavaOptions options, options_from<LlavaOptions>("llava", description));
  return std::make_shared<const Llava>(std::move(options));
}

}  // namespace isocost
