// LLaVA-OneVision: the model sees a single image of a sample whole and, enlarged, in tiles, with
// black bars that keep its aspect. If there are several, it sees each once, made square. It sees a
// fixed number of a video's frames, and pools their vectors. The oracles are
// LlavaOnevisionImageProcessor, LlavaOnevisionVideoProcessor and LlavaOnevisionProcessor of
// transformers.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "decode/prepare/exact_image.h"
#include "decode/prepare/exact_video.h"
#include "decode/prepare/frame_sampling.h"
#include "decode/prepare/media_model.h"
#include "decode/prepare/model_files.h"
#include "decode/prepare/pixel_settings.h"
#include "decode/prepare/recipe_family.h"
#include "decode/prepare/tiled_image.h"
#include "decode/prepare/video_settings.h"
#include "decode/recipes/families.h"
#include "decode/recipes/internal/family_description.h"
#include "decode/resize/patch_grid.h"

namespace isocost {
namespace {

constexpr std::size_t kMostSizes = 64;
constexpr std::string_view kAnyResolution = "anyres_max_";

/// Size of a picture that the encoder sees, or of a canvas of tiles.
using HeightWidth = std::array<std::int64_t, 2>;

/// Settings of videos, whose frames are as large as tiles.
struct OneVisionVideos : VideoSettings {};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OneVisionVideos, num_frames, resample, resize_order,
                                   rescale_factor, image_mean, image_std)

struct OneVisionOptions : PixelSettings {
  std::int64_t side = 384;            // side of a tile
  std::vector<HeightWidth> canvases;  // image_grid_pinpoints
  std::int64_t most_tiles = 9;        // limit of the tiles whose tokens an image has
  std::int64_t image_token_id = 0;
  std::int64_t video_token_id = -1;  // -1: the model takes no videos
  OneVisionVideos videos;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OneVisionOptions, side, canvases, most_tiles, image_token_id,
                                   video_token_id, videos, resample, resize_order, exactness, alpha,
                                   truncated, rescale_factor, image_mean, image_std)

// Chooses like transformers' select_best_resolution: most of the picture's pixels, then the least
// waste.
HeightWidth canvas_of(const PartShape& shape, const std::vector<HeightWidth>& canvases) {
  HeightWidth best = canvases.front();
  std::int64_t most_used = 0;
  std::int64_t least_waste = std::numeric_limits<std::int64_t>::max();
  for (const HeightWidth& canvas : canvases) {
    const auto [height, width] = canvas;
    const double scale = std::min(static_cast<double>(width) / shape.width,
                                  static_cast<double>(height) / shape.height);
    const std::int64_t scaled = static_cast<std::int64_t>(shape.width * scale) *
                                static_cast<std::int64_t>(shape.height * scale);
    const std::int64_t used = std::min(scaled, std::int64_t{shape.width} * shape.height);
    const std::int64_t waste = width * height - used;
    if (used > most_used || (used == most_used && waste < least_waste)) {
      most_used = used;
      least_waste = waste;
      best = canvas;
    }
  }
  return best;
}

// Returns the picture's size in its canvas, like transformers' get_patch_output_size.
HeightWidth fitted(const PartShape& shape, HeightWidth canvas) {
  const auto [height, width] = canvas;
  const double across = static_cast<double>(width) / shape.width;
  const double down = static_cast<double>(height) / shape.height;
  const auto scaled = [](std::int32_t side, double scale, std::int64_t most) {
    return std::min(static_cast<std::int64_t>(std::ceil(side * scale)), most);
  };
  if (across < down) return {scaled(shape.height, across, height), width};
  return {height, scaled(shape.width, down, width)};
}

// Returns Python's int(round(value, 7)): both round the exact value to decimals.
std::int64_t rounded_whole(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.7f", value);
  return static_cast<std::int64_t>(std::strtod(text.data(), nullptr));
}

// Returns Python's value // by, for positive numbers.
std::int64_t floor_divided(std::int64_t value, double by) {
  const auto dividend = static_cast<double>(value);
  const double quotient = (dividend - std::fmod(dividend, by)) / by;
  const double whole = std::floor(quotient);
  return static_cast<std::int64_t>(quotient - whole > 0.5 ? whole + 1 : whole);
}

// Returns the number of vectors of an image's tiles: rows of the canvas without its black bars,
// each with one vector for the line break; scaled down if they exceed those of most_tiles tiles.
std::int64_t tile_tokens(const PartShape& shape, HeightWidth canvas, std::int64_t side_tokens,
                         const OneVisionOptions& options) {
  std::int64_t down = side_tokens * (canvas[0] / options.side);
  std::int64_t across = side_tokens * (canvas[1] / options.side);
  const double aspect = static_cast<double>(shape.width) / shape.height;
  if (aspect > static_cast<double>(across) / static_cast<double>(down)) {
    const auto height = rounded_whole(shape.height * (static_cast<double>(across) / shape.width));
    down -= (down - height) / 2 * 2;
  } else {
    const auto width = rounded_whole(shape.width * (static_cast<double>(down) / shape.height));
    across -= (across - width) / 2 * 2;
  }
  const auto most = static_cast<double>(options.most_tiles * side_tokens * side_tokens);
  const double ratio = std::sqrt(static_cast<double>(down * across) / most);
  if (ratio <= 1.1) return down * across + down;
  const std::int64_t rows = floor_divided(down, ratio);
  return rows * floor_divided(across, ratio) + rows;
}

class LlavaOneVision final : public MediaModel {
 public:
  explicit LlavaOneVision(OneVisionOptions options)
      : options_(std::move(options)),
        resize_(options_.resize()),
        decoding_(options_.decoding()),
        grid_(covering_grid(options_.side, options_.side)),
        side_tokens_(options_.side / kPatchSide) {}

  std::string description() const override { return description_of("llava_onevision", options_); }

  std::vector<double> timestamps_s(const PartShape& shape, const PartPlan&) const override {
    return seconds_of(frames_at_steps(shape, options_.videos.num_frames), shape);
  }

 private:
  std::optional<MediaTokens> media_tokens(Modality modality) const override {
    return picture_tokens(modality, options_.image_token_id, options_.video_token_id);
  }

  Result<PartPlan> plan_medium(const PartShape& shape, const SampleShape& sample) const override {
    if (shape.modality == Modality::kVideo) return plan_video(shape);
    PartPlan plan;
    plan.grid = grid_;
    plan.images = 1;
    plan.tokens = side_tokens_ * side_tokens_ + 1;
    if (std::ranges::count(sample.parts, Modality::kImage, &PartShape::modality) > 1) return plan;
    const HeightWidth canvas = canvas_of(shape, options_.canvases);
    plan.images += (canvas[0] / options_.side) * (canvas[1] / options_.side);
    plan.tokens += tile_tokens(shape, canvas, side_tokens_, options_) - 1;
    return plan;
  }

  Result<PartPlan> plan_smallest(PartShape& shape) const override {
    shape.width = shape.height = side();
    if (shape.modality == Modality::kVideo) return plan_frames(1);
    return plan_medium(shape, {});
  }

  // Plans a video. Each frame has a quarter of a tile's vectors, and a line break follows the last
  // one.
  Result<PartPlan> plan_video(const PartShape& shape) const {
    ISOCOST_TRY(frames_a_second(shape));
    return plan_frames(options_.videos.num_frames);
  }

  PartPlan plan_frames(std::int64_t frames) const {
    const std::int64_t pooled = (side_tokens_ + 1) / 2;
    PartPlan plan;
    plan.grid = grid_;
    plan.images = frames;
    plan.tokens = plan.images * pooled * pooled + 1;
    return plan;
  }

  std::int64_t medium_bytes(const PartShape& shape, const PartPlan& plan) const override {
    if (shape.modality == Modality::kVideo) {
      return exact_video_bytes(shape, whole(), options_.videos.resize().filter);
    }
    if (plan.images == 1) {
      return squared_working_set_bytes(shape, side(), resize_);
    }
    return tiled_working_set_bytes(shape, framings(shape), resize_);
  }

  Status add_medium(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to,
                    const DecodeLimit& limit) const override {
    if (bytes.shape->modality == Modality::kVideo) {
      ISOCOST_ASSIGN(const auto frames, frames_at_steps(*bytes.shape, options_.videos.num_frames));
      return add_exact_video(bytes, {frames, whole(), grid_, 1, options_.videos.resize().filter},
                             to, limit);
    }
    const std::vector<Framing> seen =
        plan.images == 1 ? std::vector{whole()} : framings(*bytes.shape);
    ISOCOST_ASSIGN(Pixels displayed,
                   displayed_image(*bytes.source, *bytes.shape, seen.back(), decoding_, limit));
    if (plan.images == 1) {
      ISOCOST_ASSIGN(displayed, made_square(std::move(displayed), background()));
    }
    return add_tiles(displayed, seen, grid_, resize_, to, limit);
  }

  std::int32_t side() const { return static_cast<std::int32_t>(options_.side); }
  Framing whole() const { return {side(), side(), {0, 0, side(), side()}}; }

  // Returns the whole, then tiles row by row.
  std::vector<Framing> framings(const PartShape& shape) const {
    const HeightWidth canvas = canvas_of(shape, options_.canvases);
    const HeightWidth size = fitted(shape, canvas);
    const auto top = static_cast<std::int32_t>((canvas[0] - size[0]) / 2);
    const auto left = static_cast<std::int32_t>((canvas[1] - size[1]) / 2);
    std::vector<Framing> result = {whole()};
    for (std::int32_t y = 0; y < canvas[0]; y += side()) {
      for (std::int32_t x = 0; x < canvas[1]; x += side()) {
        result.push_back({static_cast<std::int32_t>(size[1]),
                          static_cast<std::int32_t>(size[0]),
                          {x - left, y - top, side(), side()}});
      }
    }
    return result;
  }

  // Returns the mean colour, truncated to bytes as in the processor.
  std::array<std::uint8_t, 3> background() const {
    std::array<std::uint8_t, 3> colour{};
    for (std::size_t i = 0; i < colour.size(); ++i) {
      colour.at(i) = static_cast<std::uint8_t>(options_.image_mean.at(i) * 255);
    }
    return colour;
  }

  const OneVisionOptions options_;
  const ExactResize resize_;
  const PictureDecoding decoding_;
  const PatchGrid grid_;
  const std::int64_t side_tokens_;
};

Error refused_canvases(const Settings& settings, const std::string& why) {
  return {ErrorCode::kUnsupported, settings.file() + ": image_grid_pinpoints " + why};
}

Result<std::vector<HeightWidth>> read_canvases(Settings& settings, std::int64_t side) {
  ISOCOST_ASSIGN(const nlohmann::json value, settings.list("image_grid_pinpoints", kMostSizes));
  std::vector<HeightWidth> canvases;
  for (const nlohmann::json& each : value) {
    const bool is_pair = each.is_array() && each.size() == 2 && each[0].is_number_integer() &&
                         each[1].is_number_integer();
    if (!is_pair) return refused_canvases(settings, "must be pairs of a height and a width");
    const auto canvas = each.get<HeightWidth>();
    for (const std::int64_t length : canvas) {
      if (length < side || length > kMostSide || length % side != 0) {
        return refused_canvases(settings, "has " + each.dump() +
                                              ", whose sides are no multiples of " + "the tiles' " +
                                              std::to_string(side) + " pixels");
      }
    }
    if (canvas[0] / side * (canvas[1] / side) > kMostTiles) {
      return refused_canvases(settings, "has " + each.dump() + ", which is more than " +
                                            std::to_string(kMostTiles) + " tiles");
    }
    canvases.push_back(canvas);
  }
  if (canvases.empty()) return refused_canvases(settings, "is empty");
  return canvases;
}

Status read_image_processor(Settings& settings, OneVisionOptions& options) {
  ISOCOST_TRY(settings.choice("image_processor_type",
                              {"LlavaOnevisionImageProcessor", "LlavaOnevisionImageProcessorFast",
                               "LlavaOnevisionImageProcessorPil"}));
  ISOCOST_ASSIGN(const PixelSize tile, read_size(settings, "size", {options.side, options.side}));
  if (tile.width != tile.height || tile.width < kPatchSide) {
    return Error(ErrorCode::kUnsupported, settings.file() + ": size must be a square of patches");
  }
  options.side = tile.width;
  ISOCOST_ASSIGN(options.canvases, read_canvases(settings, options.side));
  ISOCOST_TRY(settings.only("do_center_crop", false));
  settings.ignore({"crop_size", "pad_size"});  // settings of steps that are not used
  ISOCOST_TRY(read_pixels(settings, options, /*pads_batches=*/true));
  return settings.check_all_asked();
}

// Reads the video processor. A model whose files give no number of frames was trained with 32. The
// number must be the same for all videos, since the model's `forward` takes them as one tensor.
Status read_video_processor(Settings& settings, OneVisionOptions& options) {
  constexpr std::int64_t kFrames = 32;
  if (settings.has("fps")) {
    return Error(ErrorCode::kUnsupported,
                 settings.file() + ": fps is " + settings.values().at("fps").dump() +
                     "; the model takes videos of equally many frames alone: give num_frames");
  }
  options.videos.num_frames = kFrames;
  ISOCOST_TRY(read_video(settings, options.videos, "LlavaOnevisionVideoProcessor"));
  ISOCOST_ASSIGN(const PixelSize size, read_size(settings, "size", {384, 384}));
  if (size != PixelSize{options.side, options.side}) {
    return Error(ErrorCode::kUnsupported,
                 settings.file() + ": size is " + std::to_string(size.width) + "x" +
                     std::to_string(size.height) + ", while the encoder's pictures have " +
                     std::to_string(options.side) + " pixels a side");
  }
  settings.ignore({"image_grid_pinpoints", "pad_size"});  // these concern only images
  return settings.check_all_asked();
}

// Reads the number after "anyres_max_".
Result<std::int64_t> read_most_tiles(const Settings& settings, const std::string& ratio) {
  const std::string_view digits =
      std::string_view(ratio).substr(std::min(kAnyResolution.size(), ratio.size()));
  const bool is_number = ratio.starts_with(kAnyResolution) && !digits.empty() &&
                         digits.size() < 4 &&
                         digits.find_first_not_of("0123456789") == std::string_view::npos;
  const std::int64_t number = is_number ? std::stoll(std::string(digits)) : 0;
  if (number > 0) return number;
  return Error(ErrorCode::kUnsupported, settings.file() + ": vision_aspect_ratio is \"" + ratio +
                                            "\"; it must be anyres_max_N, such as anyres_max_9");
}

// Reads the encoder. transformers' processor and model each have these numbers in a file of their
// own, and must agree.
Status read_encoder(ModelFiles& files, OneVisionOptions& options) {
  Settings& config = files.config;
  ISOCOST_ASSIGN(Settings vision, config.object("vision_config"));
  ISOCOST_TRY(vision.choice("model_type", {"siglip_vision_model"}, "siglip_vision_model"));
  ISOCOST_TRY(vision.integer("patch_size", kPatchSide, kPatchSide));
  ISOCOST_TRY(vision.integer("image_size", options.side, options.side));
  ISOCOST_ASSIGN(const auto canvases, read_canvases(config, options.side));
  if (canvases != options.canvases) {
    return refused_canvases(config, "differs from that of " + files.image_processor.file());
  }
  ISOCOST_TRY(config.choice("vision_feature_select_strategy", {"full"}, "full"));
  ISOCOST_TRY(config.only("use_image_newline_parameter", true));
  const std::string otherwise = "anyres_max_9";
  std::string ratio = otherwise;
  if (config.has("vision_aspect_ratio")) {
    ISOCOST_ASSIGN(ratio, config.text("vision_aspect_ratio"));
  }
  ISOCOST_ASSIGN(options.most_tiles, read_most_tiles(config, ratio));
  ISOCOST_TRY(files.processor.choice("vision_aspect_ratio", {ratio}, otherwise));
  if (!files.processor.has("vision_aspect_ratio") && ratio != otherwise) {
    return Error(ErrorCode::kUnsupported,
                 config.file() + ": vision_aspect_ratio is \"" + ratio +
                     "\", and processor_config.json does not say so: its processor would count "
                     "tokens of anyres_max_9");
  }
  const std::int64_t side_tokens = options.side / kPatchSide;
  ISOCOST_TRY(files.processor.integer("num_image_tokens", side_tokens * side_tokens,
                                      side_tokens * side_tokens, side_tokens * side_tokens));
  ISOCOST_TRY(files.processor.only("vision_feature_select_strategy", "full"));
  files.processor.ignore(
      {"image_processor", "video_processor", "image_token", "video_token", "processor_class"});
  return files.processor.check_all_asked();
}

}  // namespace

Result<Family> read_llava_onevision(ModelFiles& files, const ModelType&) {
  OneVisionOptions options;
  const auto token_id = [&](const std::string& kind, std::optional<std::int64_t> otherwise) {
    const std::string id = kind + "_token_id";  // "_index" before transformers 5
    return files.config.integer(files.config.has(id) ? id : kind + "_token_index",
                                otherwise.value_or(0), kMostTokenId, otherwise);
  };
  ISOCOST_ASSIGN(options.image_token_id, token_id("image", std::nullopt));
  ISOCOST_ASSIGN(options.video_token_id, token_id("video", -1));
  ISOCOST_TRY(read_image_processor(files.image_processor, options));
  ISOCOST_TRY(read_encoder(files, options));
  if (options.video_token_id >= 0) {
    ISOCOST_TRY(read_video_processor(files.video_processor, options));
  }
  options.take_options(files);
  options.videos.take_options(files);
  return std::make_shared<const LlavaOneVision>(std::move(options));
}

Result<Family> parse_llava_onevision(std::string_view description) {
  ISOCOST_ASSIGN(OneVisionOptions options,
                 options_from<OneVisionOptions>("llava_onevision", description));
  return std::make_shared<const LlavaOneVision>(std::move(options));
}

}  // namespace isocost
