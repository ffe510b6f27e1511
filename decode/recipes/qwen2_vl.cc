// Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5: a picture keeps its aspect, its sides are multiples
// of two patches, and its pixels lie within bounds; a patch of a video spans two frames. The
// oracles are Qwen2VLImageProcessor, Qwen2VLVideoProcessor and Qwen3VLVideoProcessor of
// transformers, and the models' get_rope_index.

#include <algorithm>
#include <cmath>
#include <cstdint>
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
#include "decode/prepare/video_settings.h"
#include "decode/recipes/families.h"
#include "decode/recipes/internal/family_description.h"
#include "decode/resize/patch_grid.h"

namespace isocost {
namespace {

constexpr std::int64_t kMostPixels = std::int64_t{1} << 40;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
constexpr std::int32_t kTemporalPatch = 2;
constexpr std::int64_t kMerge = 2;
constexpr double kMostAspect = 200;

struct QwenImages : PixelSettings {
  // Defaults of the processor where its file lacks the numbers.
  std::int64_t min_pixels = std::int64_t{56} * 56;
  std::int64_t max_pixels = std::int64_t{28} * 28 * 1280;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(QwenImages, min_pixels, max_pixels, resample, resize_order,
                                   exactness, alpha, truncated, rescale_factor, image_mean,
                                   image_std)

struct QwenVideos : VideoSettings {
  std::int64_t min_frames = 4;
  std::int64_t max_frames = 768;
  std::int64_t min_pixels = 0;
  std::int64_t max_pixels = 0;
  bool cap_pixels_per_frame = false;
  std::int64_t max_video_tokens = 0;

  FrameSampling sampling() const { return {fps, num_frames, min_frames, max_frames}; }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(QwenVideos, min_pixels, max_pixels, cap_pixels_per_frame,
                                   max_video_tokens, fps, num_frames, min_frames, max_frames,
                                   resample, resize_order, rescale_factor, image_mean, image_std)

struct QwenVlOptions {
  QwenImages images;
  QwenVideos videos;
  std::int64_t patch_size = kPatchSide;
  std::int64_t image_token_id = 0;
  std::int64_t video_token_id = -1;  // -1: the model takes no videos
  /// Positions of M-RoPE a second of video; 0: each pair of frames has one.
  std::int64_t tokens_per_second = 0;
  /// Whether the text has the time of each pair of frames, and a placeholder for it, as with
  /// Qwen3VLVideoProcessor.
  bool has_timestamps = false;
  bool linear_attention = false;  ///< ModelType::linear_attention, for the client.

  std::int64_t group() const { return kMerge * patch_size; }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(QwenVlOptions, images, videos, patch_size, image_token_id,
                                   video_token_id, tokens_per_second, has_timestamps,
                                   linear_attention)

/// Limits of the pixels of a picture, or of all of a video's frames.
struct Bounds {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

Status check_aspect(std::int64_t width, std::int64_t height) {
  const double aspect =
      static_cast<double>(std::max(width, height)) / static_cast<double>(std::min(width, height));
  if (aspect <= kMostAspect) return {};
  return Error(ErrorCode::kUnsupported,
               "a picture of " + std::to_string(width) + "x" + std::to_string(height) +
                   ": the model's processor refuses sides that differ more than 200 times");
}

// Computes the grid in the arithmetic of `smart_resize`, where `round` is Python's, to even.
// `frames` is the number of frames that share the bounds, and `even` the same rounded to pairs.
PatchGrid smart_grid(std::int64_t width, std::int64_t height, std::int64_t patch, Bounds bounds,
                     std::int64_t frames = 1, std::int64_t even = 1) {
  const auto group = static_cast<double>(kMerge * patch);
  const auto wide = static_cast<double>(width);
  const auto high = static_cast<double>(height);
  const auto least = static_cast<double>(bounds.least);
  const auto most = static_cast<double>(bounds.most);
  const double pixels = static_cast<double>(frames) * high * wide;
  double across = std::nearbyint(wide / group);
  double down = std::nearbyint(high / group);
  const double rounded = static_cast<double>(even) * across * down * group * group;
  if (rounded > most) {
    const double beta = std::sqrt(pixels / most);
    across = std::max(1.0, std::floor(wide / beta / group));
    down = std::max(1.0, std::floor(high / beta / group));
  } else if (rounded < least) {
    const double beta = std::sqrt(least / pixels);
    across = std::ceil(wide * beta / group);
    down = std::ceil(high * beta / group);
  }
  return {2 * static_cast<std::int32_t>(down), 2 * static_cast<std::int32_t>(across),
          static_cast<std::int32_t>(patch)};
}

// Returns the least pixels with the margin that qwen-vl-utils leaves above them.
std::int64_t with_margin(std::int64_t min_pixels) {
  return static_cast<std::int64_t>(static_cast<double>(min_pixels) * 1.05);
}

class QwenVl final : public MediaModel {
 public:
  explicit QwenVl(QwenVlOptions options) : options_(std::move(options)) {}

  std::string description() const override { return description_of("qwen2_vl", options_); }

  std::vector<double> timestamps_s(const PartShape& shape, const PartPlan&) const override {
    return seconds_of(indices_of(shape), shape);
  }

  std::string text_settings() const override {
    return options_.has_timestamps ? sampling_settings(options_.videos.sampling()) : "";
  }

 private:
  std::optional<MediaTokens> media_tokens(Modality modality) const override {
    return picture_tokens(modality, options_.image_token_id, options_.video_token_id);
  }

  bool has_rope() const override { return true; }

  Result<PartPlan> plan_medium(const PartShape& shape, const SampleShape&) const override {
    if (shape.modality == Modality::kVideo) return plan_video(shape);
    ISOCOST_TRY(check_aspect(shape.width, shape.height));
    PartPlan plan;
    plan.grid = smart_grid(shape.width, shape.height, options_.patch_size,
                           {options_.images.min_pixels, options_.images.max_pixels});
    plan.images = 1;
    plan.tokens = plan.grid.tokens();
    return plan;
  }

  // One token: a group of patches, or of pairs of them.
  Result<PartPlan> plan_smallest(PartShape& shape) const override {
    PartPlan plan;
    plan.grid = {kMerge, kMerge, static_cast<std::int32_t>(options_.patch_size)};
    if (shape.modality == Modality::kVideo) plan.depth = kTemporalPatch;
    plan.images = 1;
    plan.tokens = plan.grid.tokens();
    shape.width = plan.grid.width();
    shape.height = plan.grid.height();
    return plan;
  }

  std::int64_t medium_bytes(const PartShape& shape, const PartPlan& plan) const override {
    if (shape.modality == Modality::kVideo) {
      return exact_video_bytes(shape, whole(plan.grid), options_.videos.resize().filter);
    }
    return framed_image_bytes(shape, whole(plan.grid), options_.images.resize());
  }

  Status add_medium(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to,
                    const DecodeLimit& limit) const override {
    if (bytes.shape->modality == Modality::kVideo) {
      ISOCOST_ASSIGN(const std::vector<std::int64_t> indices, indices_of(*bytes.shape));
      return add_exact_video(
          bytes,
          {indices, whole(plan.grid), plan.grid, plan.depth, options_.videos.resize().filter}, to,
          limit);
    }
    return framed_image_patches(*bytes.source, *bytes.shape, whole(plan.grid), plan.grid,
                                options_.images.resize(), options_.images.decoding(),
                                to.next_image(plan.grid), limit);
  }

  Result<std::vector<std::int64_t>> indices_of(const PartShape& shape) const {
    const FrameSampling how = options_.videos.sampling();
    return options_.has_timestamps ? frames_to_the_last(shape, how) : frames_in_pairs(shape, how);
  }

  Result<PartPlan> plan_video(const PartShape& shape) const;
  Result<PatchGrid> frame_grid(const PartShape& shape, std::int64_t frames) const;
  Result<PatchGrid> grid_of_all(const PartShape& shape, std::int64_t frames) const;

  const QwenVlOptions options_;
};

Result<PartPlan> QwenVl::plan_video(const PartShape& shape) const {
  ISOCOST_ASSIGN(const std::vector<std::int64_t> indices, indices_of(shape));
  ISOCOST_ASSIGN(const double rate, frames_a_second(shape));
  const auto frames = std::ssize(indices);
  PartPlan plan;
  ISOCOST_ASSIGN(plan.grid,
                 options_.has_timestamps ? grid_of_all(shape, frames) : frame_grid(shape, frames));
  plan.depth = kTemporalPatch;
  plan.images = (frames + kTemporalPatch - 1) / kTemporalPatch;
  plan.tokens = plan.images * plan.grid.tokens();
  if (options_.has_timestamps) plan.placeholders = plan.images;
  if (options_.tokens_per_second > 0) {
    // Rounds each step like the processor and get_rope_index: seconds in double, then float.
    const double sampled = static_cast<double>(frames) / static_cast<double>(shape.frames) * rate;
    plan.rope_interval = static_cast<float>(options_.tokens_per_second) *
                         static_cast<float>(kTemporalPatch / sampled);
  }
  return plan;
}

// Returns the grid for Qwen2-VL and Qwen2.5-VL, whose bounds apply to each frame.
Result<PatchGrid> QwenVl::frame_grid(const PartShape& shape, std::int64_t frames) const {
  const QwenVideos& videos = options_.videos;
  ISOCOST_TRY(check_aspect(shape.width, shape.height));
  std::int64_t most = videos.max_pixels;
  if (videos.cap_pixels_per_frame) {
    const auto total = static_cast<std::int64_t>(
        static_cast<double>(videos.max_video_tokens * options_.group() * options_.group()) * 0.9);
    most =
        std::max(std::min(most, total * kTemporalPatch / frames), with_margin(videos.min_pixels));
  }
  return smart_grid(shape.width, shape.height, options_.patch_size, {videos.min_pixels, most});
}

// Returns the grid for Qwen3-VL and Qwen3.5, whose bounds apply to all frames together.
Result<PatchGrid> QwenVl::grid_of_all(const PartShape& shape, std::int64_t sampled) const {
  const QwenVideos& videos = options_.videos;
  const std::int64_t group = options_.group();
  const std::int64_t frames = std::max<std::int64_t>(sampled, kTemporalPatch);
  std::int64_t most = videos.max_pixels;
  if (videos.cap_pixels_per_frame) {
    const std::int64_t of_frame = std::min(videos.max_video_tokens * group * group, most / frames);
    most = std::max(of_frame, with_margin(videos.min_pixels)) * frames;
  }
  std::int64_t width = shape.width;
  std::int64_t height = shape.height;
  if (height < group || width < group) {
    const double scale = std::max(static_cast<double>(group) / static_cast<double>(height),
                                  static_cast<double>(group) / static_cast<double>(width));
    height = static_cast<std::int64_t>(static_cast<double>(height) * scale);
    width = static_cast<std::int64_t>(static_cast<double>(width) * scale);
  }
  ISOCOST_TRY(check_aspect(width, height));
  const std::int64_t even = 2 * std::llrint(static_cast<double>(frames) / 2);
  return smart_grid(width, height, options_.patch_size, {videos.min_pixels, most}, frames, even);
}

// Reads the bounds in `size`, where newer files have them.
template <typename Pixels>
Status read_size_bounds(Settings& settings, Pixels& pixels) {
  if (!settings.has("size")) {
    settings.ignore({"size"});
    return {};
  }
  ISOCOST_ASSIGN(Settings size, settings.object("size"));
  ISOCOST_ASSIGN(pixels.min_pixels,
                 size.integer("shortest_edge", 1, kMostPixels, pixels.min_pixels));
  ISOCOST_ASSIGN(pixels.max_pixels,
                 size.integer("longest_edge", 1, kMostPixels, pixels.max_pixels));
  ISOCOST_TRY(size.check_all_asked());
  if (size.has("shortest_edge") && size.has("longest_edge")) return {};
  return Error(ErrorCode::kUnsupported,
               settings.file() + ": size must have shortest_edge and longest_edge");
}

// Reads the bounds that older files name themselves, which then take precedence.
template <typename Pixels>
Status read_named_bounds(Settings& settings, Pixels& pixels) {
  ISOCOST_ASSIGN(pixels.min_pixels,
                 settings.integer("min_pixels", 1, kMostPixels, pixels.min_pixels));
  ISOCOST_ASSIGN(pixels.max_pixels,
                 settings.integer("max_pixels", 1, kMostPixels, pixels.max_pixels));
  return {};
}

template <typename Pixels>
Status check_bounds(const Settings& settings, const Pixels& pixels) {
  if (pixels.min_pixels <= pixels.max_pixels) return {};
  return Error(ErrorCode::kUnsupported,
               settings.file() + ": min_pixels is " + std::to_string(pixels.min_pixels) +
                   ", more than max_pixels, which is " + std::to_string(pixels.max_pixels));
}

// Checks that the encoder's patches are the processor's, which are `otherwise` where its file lacks
// them.
Status read_patches(Settings& settings, std::int64_t patch_size, std::int64_t otherwise) {
  ISOCOST_ASSIGN(const std::int64_t made, settings.integer("patch_size", 1, kMostSide, otherwise));
  if (made != patch_size) {
    return Error(ErrorCode::kUnsupported, settings.file() + ": patch_size is " +
                                              std::to_string(made) +
                                              ", while the encoder's patches have " +
                                              std::to_string(patch_size) + " pixels");
  }
  ISOCOST_TRY(settings.only("merge_size", kMerge));
  return settings.only("temporal_patch_size", kTemporalPatch);
}

Status read_images(Settings& settings, QwenVlOptions& options) {
  ISOCOST_TRY(settings.choice(
      "image_processor_type",
      {"Qwen2VLImageProcessor", "Qwen2VLImageProcessorFast", "Qwen2VLImageProcessorPil"},
      "Qwen2VLImageProcessor"));
  ISOCOST_TRY(read_size_bounds(settings, options.images));
  ISOCOST_TRY(read_named_bounds(settings, options.images));
  ISOCOST_TRY(check_bounds(settings, options.images));
  ISOCOST_TRY(read_pixels(settings, options.images));
  ISOCOST_TRY(read_patches(settings, options.patch_size, kPatchSide));
  ISOCOST_TRY(settings.only("do_center_crop", false));
  return settings.check_all_asked();
}

// Sets the defaults of the classes of video processors.
void set_defaults(QwenVlOptions& options) {
  QwenVideos& videos = options.videos;
  const std::int64_t side = options.has_timestamps ? 32 : 28;
  videos.min_pixels = 128 * side * side;
  videos.max_pixels = 768 * side * side;
  videos.max_video_tokens = options.has_timestamps ? 768 : 128'000;
  if (options.has_timestamps) {
    videos.image_mean = videos.image_std = {0.5, 0.5, 0.5};
  }
}

Status read_videos(Settings& settings, const ModelType& type, QwenVlOptions& options) {
  QwenVideos& videos = options.videos;
  set_defaults(options);
  ISOCOST_TRY(read_size_bounds(settings, videos));
  if (!options.has_timestamps) ISOCOST_TRY(read_named_bounds(settings, videos));
  ISOCOST_TRY(check_bounds(settings, videos));
  ISOCOST_TRY(read_video(settings, videos, type.video_processor));
  ISOCOST_ASSIGN(videos.min_frames,
                 settings.integer("min_frames", 0, kMostFrames, videos.min_frames));
  ISOCOST_ASSIGN(videos.max_frames,
                 settings.integer("max_frames", 2, kMostFrames, videos.max_frames));
  ISOCOST_TRY(read_patches(settings, options.patch_size, options.has_timestamps ? 16 : kPatchSide));
  ISOCOST_ASSIGN(videos.cap_pixels_per_frame, settings.flag("cap_pixels_per_frame", false));
  ISOCOST_ASSIGN(videos.max_video_tokens,
                 settings.integer("max_video_tokens", 1, kMostTokens, videos.max_video_tokens));
  return settings.check_all_asked();
}

Status read_encoder(ModelFiles& files, const ModelType& type, QwenVlOptions& options) {
  ISOCOST_ASSIGN(Settings vision, files.config.object("vision_config"));
  const std::int64_t otherwise = options.has_timestamps ? 16 : kPatchSide;
  ISOCOST_ASSIGN(options.patch_size, vision.integer("patch_size", 1, kMostSide, otherwise));
  if (options.patch_size != 14 && options.patch_size != 16) {
    return Error(ErrorCode::kUnsupported, vision.file() + ": patch_size is " +
                                              std::to_string(options.patch_size) +
                                              "; it must be 14 or 16");
  }
  if (type.name == "qwen2_5_vl") {
    constexpr std::int64_t kOfItsClass = 4;
    constexpr std::int64_t kMost = 1 << 16;
    ISOCOST_ASSIGN(options.tokens_per_second,
                   vision.integer("tokens_per_second", 1, kMost, kOfItsClass));
  }
  ISOCOST_TRY(vision.only("spatial_merge_size", kMerge));
  return vision.only("temporal_patch_size", kTemporalPatch);
}

// Refuses a mixture that does not say how many experts it has: transformers would build it with the
// numbers of another model.
Status check_experts(ModelFiles& files) {
  constexpr std::int64_t kMost = 1 << 16;
  ISOCOST_ASSIGN(Settings text, files.config.object("text_config"));
  const std::string_view key = text.has("num_local_experts") ? "num_local_experts" : "num_experts";
  ISOCOST_ASSIGN(const std::int64_t experts, text.integer(key, 1, kMost));
  ISOCOST_TRY(text.integer("num_experts_per_tok", 1, experts));
  return {};
}

}  // namespace

Result<Family> read_qwen2_vl(ModelFiles& files, const ModelType& type) {
  QwenVlOptions options;
  options.has_timestamps = type.video_processor == "Qwen3VLVideoProcessor";
  options.linear_attention = type.linear_attention;
  ISOCOST_ASSIGN(options.image_token_id, files.config.integer("image_token_id", 0, kMostTokenId));
  ISOCOST_ASSIGN(options.video_token_id,
                 files.config.integer("video_token_id", -1, kMostTokenId, -1));
  ISOCOST_TRY(read_encoder(files, type, options));
  if (type.experts) ISOCOST_TRY(check_experts(files));
  ISOCOST_TRY(read_images(files.image_processor, options));
  ISOCOST_TRY(read_videos(files.video_processor, type, options));
  options.images.take_options(files);
  options.videos.take_options(files);
  return std::make_shared<const QwenVl>(std::move(options));
}

Result<Family> parse_qwen2_vl(std::string_view description) {
  ISOCOST_ASSIGN(QwenVlOptions options, options_from<QwenVlOptions>("qwen2_vl", description));
  return std::make_shared<const QwenVl>(std::move(options));
}

}  // namespace isocost
