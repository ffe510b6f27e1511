// InternVL in transformers' own form: a picture is resized to a canvas of tiles, which the encoder
// sees one by one, followed by the whole picture in one more tile. The oracles are
// GotOcr2ImageProcessor and InternVLProcessor of transformers.

#include <algorithm>
#include <cmath>
#include <cstdint>
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

struct InternVlVideos : VideoSettings {
  std::int64_t width = 384;  // size of a frame
  std::int64_t height = 384;

  // Returns the grid, with black patches where the sides are no multiples of a group's.
  PatchGrid grid() const {
    const auto patches = [](std::int64_t side) {
      return static_cast<std::int32_t>(2 * ((side + kGroupSide - 1) / kGroupSide));
    };
    return {patches(height), patches(width)};
  }
  Framing framing() const {
    const auto wide = static_cast<std::int32_t>(width);
    const auto high = static_cast<std::int32_t>(height);
    return {wide, high, {0, 0, wide, high}};
  }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(InternVlVideos, width, height, fps, num_frames, resample,
                                   resize_order, rescale_factor, image_mean, image_std)

struct InternVlOptions : PixelSettings {
  std::int64_t width = 384;  // size of a tile
  std::int64_t height = 384;
  std::int64_t min_tiles = 1;
  std::int64_t max_tiles = 12;
  std::int64_t image_token_id = 0;
  std::int64_t begin_token_id = 0;
  std::int64_t end_token_id = 0;
  std::int64_t video_token_id =
      -1;  // represents a video until frames take its place; -1: no videos
  InternVlVideos videos;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(InternVlOptions, width, height, min_tiles, max_tiles,
                                   image_token_id, begin_token_id, end_token_id, video_token_id,
                                   videos, resample, resize_order, exactness, alpha, truncated,
                                   rescale_factor, image_mean, image_std)

/// An arrangement of tiles.
struct Canvas {
  std::int32_t columns = 1;
  std::int32_t rows = 1;

  std::int32_t tiles() const { return columns * rows; }
  /// Returns the number of pictures, including the one that shows the whole.
  std::int32_t pictures() const { return tiles() == 1 ? 1 : tiles() + 1; }
};

// Returns the canvases: those with few tiles first, and of equally many, those with few columns.
std::vector<Canvas> canvases(std::int64_t least, std::int64_t most) {
  std::vector<Canvas> result;
  for (std::int32_t columns = 1; columns <= most; ++columns) {
    for (std::int32_t rows = 1; rows <= most; ++rows) {
      const Canvas canvas{columns, rows};
      if (canvas.tiles() >= least && canvas.tiles() <= most) result.push_back(canvas);
    }
  }
  std::ranges::stable_sort(result, {}, &Canvas::tiles);
  return result;
}

class InternVl final : public MediaModel {
 public:
  explicit InternVl(InternVlOptions options)
      : options_(std::move(options)),
        resize_(options_.resize()),
        decoding_(options_.decoding()),
        tile_{static_cast<std::int32_t>(options_.height / kPatchSide),
              static_cast<std::int32_t>(options_.width / kPatchSide)},
        canvases_(canvases(options_.min_tiles, options_.max_tiles)) {}

  std::string description() const override { return description_of("internvl", options_); }

  std::string text_settings() const override {
    return sampling_settings(options_.videos.sampling());
  }

  std::vector<double> timestamps_s(const PartShape& shape, const PartPlan&) const override {
    return seconds_of(frames_in_slices(shape, options_.videos.sampling()), shape);
  }

 private:
  std::optional<MediaTokens> media_tokens(Modality modality) const override {
    MediaTokens tokens{modality, options_.image_token_id, options_.begin_token_id,
                       options_.end_token_id};
    if (modality == Modality::kImage) return tokens;
    if (modality != Modality::kVideo || options_.video_token_id < 0) return std::nullopt;
    tokens.placeholder = options_.video_token_id;
    return tokens;
  }

  Result<PartPlan> plan_medium(const PartShape& shape, const SampleShape&) const override {
    if (shape.modality == Modality::kVideo) return plan_video(shape);
    PartPlan plan;
    plan.grid = tile_;
    plan.images = canvas_of(shape).pictures();
    plan.tokens = plan.images * tile_.tokens() + 2;
    return plan;
  }

  // Frames are tiles, which the encoder sees with those of images.
  Modality encoder_call(Modality modality) const override {
    return modality == Modality::kVideo ? Modality::kImage : modality;
  }

  Result<PartPlan> plan_smallest(PartShape& shape) const override {
    shape.width = tile_.width();
    shape.height = tile_.height();
    PartPlan plan;
    plan.grid = tile_;
    plan.images = 1;
    plan.tokens = tile_.tokens();
    return plan;
  }

  // Plans a video. A frame is a tile, and has a placeholder of its own.
  Result<PartPlan> plan_video(const PartShape& shape) const {
    ISOCOST_ASSIGN(const auto frames, frames_in_slices(shape, options_.videos.sampling()));
    PartPlan plan;
    plan.grid = options_.videos.grid();
    plan.images = plan.placeholders = std::ssize(frames);
    plan.tokens = plan.images * (tile_.tokens() + 2);
    return plan;
  }

  std::int64_t medium_bytes(const PartShape& shape, const PartPlan&) const override {
    if (shape.modality == Modality::kVideo) {
      return exact_video_bytes(shape, options_.videos.framing(), options_.videos.resize().filter);
    }
    return tiled_working_set_bytes(shape, framings(shape), resize_);
  }

  Status add_medium(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to,
                    const DecodeLimit& limit) const override {
    if (bytes.shape->modality == Modality::kVideo) {
      ISOCOST_ASSIGN(const auto frames, frames_in_slices(*bytes.shape, options_.videos.sampling()));
      return add_exact_video(
          bytes, {frames, options_.videos.framing(), plan.grid, 1, options_.videos.resize().filter},
          to, limit);
    }
    const std::vector<Framing> seen = framings(*bytes.shape);
    ISOCOST_ASSIGN(const Pixels displayed,
                   displayed_image(*bytes.source, *bytes.shape, seen.front(), decoding_, limit));
    return add_tiles(displayed, seen, tile_, resize_, to, limit);
  }

  Canvas canvas_of(const PartShape& shape) const;
  std::vector<Framing> framings(const PartShape& shape) const;

  const InternVlOptions options_;
  const ExactResize resize_;
  const PictureDecoding decoding_;
  const PatchGrid tile_;
  const std::vector<Canvas> canvases_;
};

// Chooses like transformers' get_optimal_tiled_canvas: the nearest aspect; if several are equally
// near, more tiles as long as they have less than twice the picture's pixels.
Canvas InternVl::canvas_of(const PartShape& shape) const {
  const double aspect = static_cast<double>(shape.width) / shape.height;
  const auto pixels = static_cast<double>(std::int64_t{shape.width} * shape.height);
  const auto tile_pixels = static_cast<double>(options_.width * options_.height);
  double nearest = std::numeric_limits<double>::infinity();
  Canvas best;
  for (const Canvas& canvas : canvases_) {
    const double distance = std::abs(aspect - static_cast<double>(canvas.columns) / canvas.rows);
    if (distance < nearest ||
        (distance == nearest && pixels > 0.5 * tile_pixels * canvas.tiles())) {
      nearest = distance;
      best = canvas;
    }
  }
  return best;
}

// Returns the tiles row by row, then the whole.
std::vector<Framing> InternVl::framings(const PartShape& shape) const {
  const Canvas canvas = canvas_of(shape);
  const std::int32_t width = tile_.width();
  const std::int32_t height = tile_.height();
  std::vector<Framing> result;
  for (std::int32_t row = 0; row < canvas.rows; ++row) {
    for (std::int32_t column = 0; column < canvas.columns; ++column) {
      result.push_back({canvas.columns * width,
                        canvas.rows * height,
                        {column * width, row * height, width, height}});
    }
  }
  if (canvas.tiles() > 1) result.push_back({width, height, {0, 0, width, height}});
  return result;
}

Status read_image_processor(Settings& settings, InternVlOptions& options) {
  ISOCOST_TRY(settings.choice(
      "image_processor_type",
      {"GotOcr2ImageProcessor", "GotOcr2ImageProcessorFast", "GotOcr2ImageProcessorPil"}));
  ISOCOST_ASSIGN(const PixelSize tile,
                 read_size(settings, "size", {options.width, options.height}));
  options.width = tile.width;
  options.height = tile.height;
  ISOCOST_ASSIGN(options.min_tiles,
                 settings.integer("min_patches", 1, kMostTiles, options.min_tiles));
  ISOCOST_ASSIGN(options.max_tiles,
                 settings.integer("max_patches", 1, kMostTiles, options.max_tiles));
  settings.ignore({"crop_to_patches"});  // InternVLProcessor cuts whatever this says
  ISOCOST_TRY(
      settings.only("resample", 3));  // transformers before 5 takes no other filter for tiles
  ISOCOST_TRY(settings.only("do_center_crop", false));
  ISOCOST_TRY(read_pixels(settings, options));
  return settings.check_all_asked();
}

// Reads the video processor. A model whose files give no number of frames is shown eight.
Status read_video_processor(Settings& settings, InternVlVideos& videos) {
  constexpr std::int64_t kFrames = 8;
  videos.num_frames = kFrames;
  ISOCOST_TRY(read_video(settings, videos, "InternVLVideoProcessor"));
  ISOCOST_ASSIGN(const PixelSize size, read_size(settings, "size", {videos.width, videos.height}));
  videos.width = size.width;
  videos.height = size.height;
  ISOCOST_TRY(settings.only("initial_shift", true));
  settings.ignore({"crop_to_patches", "min_patches", "max_patches"});  // these concern only images
  return settings.check_all_asked();
}

// Returns a side, from one number or from one for each side.
Result<std::int64_t> side_of(Settings& settings, const char* key, std::int64_t otherwise) {
  if (const auto side = settings.integer(key, 1, kMostSide, otherwise)) return *side;
  ISOCOST_ASSIGN(const std::vector<double> sides, settings.numbers(key, {0, 0}));
  if (sides[0] == sides[1]) return static_cast<std::int64_t>(sides[0]);
  return Error(ErrorCode::kUnsupported, settings.file() + ": " + key + " has two different sides");
}

// Reads the encoder, which sees squares, of which four patches become a token. transformers'
// processor counts tokens by its own number, which must be the encoder's.
Status read_encoder(ModelFiles& files, const InternVlOptions& options) {
  ISOCOST_ASSIGN(Settings vision, files.config.object("vision_config"));
  ISOCOST_ASSIGN(const std::int64_t patch, side_of(vision, "patch_size", kPatchSide));
  ISOCOST_ASSIGN(const std::int64_t side, side_of(vision, "image_size", 448));
  if (patch != kPatchSide || side % kGroupSide != 0) {
    return Error(ErrorCode::kUnsupported, vision.file() + ": patch_size is " +
                                              std::to_string(patch) + " and image_size " +
                                              std::to_string(side) +
                                              "; only patches of 14 pixels are supported, an even "
                                              "number of them along a side");
  }
  if (PixelSize{options.width, options.height} != PixelSize{side, side}) {
    return Error(ErrorCode::kUnsupported,
                 vision.file() + ": image_size is " + std::to_string(side) +
                     ", and the image processor makes tiles of " + std::to_string(options.width) +
                     "x" + std::to_string(options.height));
  }
  ISOCOST_TRY(files.config.only("downsample_ratio", 0.5));
  ISOCOST_TRY(files.config.only("vision_feature_select_strategy", "default"));
  const std::int64_t tokens = (side / kGroupSide) * (side / kGroupSide);
  ISOCOST_ASSIGN(const std::int64_t counted,
                 files.processor.integer("image_seq_length", 1, kMostSide, 256));
  if (counted != tokens) {
    return Error(ErrorCode::kUnsupported, (files.directory / "processor_config.json").string() +
                                              ": image_seq_length is " + std::to_string(counted) +
                                              "; it must be " + std::to_string(tokens));
  }
  files.processor.ignore({"image_processor", "video_processor", "processor_class"});
  return files.processor.check_all_asked();
}

}  // namespace

Result<Family> read_internvl(ModelFiles& files, const ModelType&) {
  InternVlOptions options;
  ISOCOST_ASSIGN(options.image_token_id, files.config.integer("image_token_id", 0, kMostTokenId));
  ISOCOST_TRY(read_image_processor(files.image_processor, options));
  ISOCOST_TRY(read_encoder(files, options));
  ISOCOST_ASSIGN(options.begin_token_id, special_token_id(files.directory, "start_image_token"));
  ISOCOST_ASSIGN(options.end_token_id, special_token_id(files.directory, "end_image_token"));
  if (const auto video = special_token_id(files.directory, "video_token")) {
    options.video_token_id = *video;
    ISOCOST_TRY(read_video_processor(files.video_processor, options.videos));
  }
  options.take_options(files);
  options.videos.take_options(files);
  return std::make_shared<const InternVl>(std::move(options));
}

Result<Family> parse_internvl(std::string_view description) {
  ISOCOST_ASSIGN(InternVlOptions options, options_from<InternVlOptions>("internvl", description));
  return std::make_shared<const InternVl>(std::move(options));
}

}  // namespace isocost
