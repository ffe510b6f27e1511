#include "decode/prepare/video_settings.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace isocost {
namespace {

constexpr double kFramesASecond = 2;
constexpr double kMostFramesASecond = 1000;

// Reads fps or num_frames, or neither.
Status read_number(Settings& settings, VideoSettings& video) {
  const bool by_rate = settings.has("fps");
  const bool by_number = settings.has("num_frames");
  if (by_rate && by_number) {
    return Error(ErrorCode::kUnsupported,
                 settings.file() + ": fps and num_frames are both given; transformers takes one");
  }
  ISOCOST_ASSIGN(const double fps, settings.number("fps", video.fps));
  ISOCOST_ASSIGN(const std::int64_t num_frames,
                 settings.integer("num_frames", 1, kMostFrames, video.num_frames));
  if (by_rate && !(fps > 0 && fps <= kMostFramesASecond)) {
    return Error(ErrorCode::kUnsupported, settings.file() + ": fps is " + std::to_string(fps) +
                                              "; it must be more than 0, and at most 1000");
  }
  video.num_frames = by_rate ? 0 : num_frames;
  video.fps = video.num_frames > 0 ? 0 : (fps > 0 ? fps : kFramesASecond);
  return {};
}

}  // namespace

std::string sampling_settings(const FrameSampling& sampling) {
  return nlohmann::json{{"fps", sampling.fps},
                        {"num_frames", sampling.num_frames},
                        {"min_frames", sampling.min_frames},
                        {"max_frames", sampling.max_frames}}
      .dump();
}

Status read_video(Settings& settings, VideoSettings& video, std::string_view type) {
  ISOCOST_TRY(settings.choice("video_processor_type", {type}, type));
  ISOCOST_TRY(read_pixels(settings, video, /*pads_batches=*/std::nullopt));
  ISOCOST_TRY(read_number(settings, video));
  ISOCOST_TRY(settings.flag("do_sample_frames", true));
  ISOCOST_TRY(settings.only("do_center_crop", false));
  // Without a file of a video processor, the image processor's settings are read.
  settings.ignore({"image_processor_type", "return_metadata", "video_metadata", "crop_size"});
  return {};
}

}  // namespace isocost
