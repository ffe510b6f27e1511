#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "decode/prepare/frame_sampling.h"
#include "decode/prepare/model_files.h"
#include "decode/prepare/pixel_settings.h"

namespace isocost {

inline constexpr std::int64_t kMostFrames = std::int64_t{1} << 16;

/// Settings that the video processors of all families have.
struct VideoSettings : PixelSettings {
  double fps = 0;
  std::int64_t num_frames = 0;

  FrameSampling sampling() const { return {.fps = fps, .num_frames = num_frames}; }
};

/// What the text of a video's frames depends on, as JSON.
std::string sampling_settings(const FrameSampling& sampling);

/// Reads those of the video processor; what its file does not say stays. Where neither the file nor
/// `video` says how many frames, they are 2 a second, whether or not do_sample_frames is set: every
/// frame of a video is what nobody trains on. `type`: the class of the family's video processor.
/// Errors: kUnsupported, for a file of another class, too.
Status read_video(Settings& settings, VideoSettings& video, std::string_view type);

}  // namespace isocost
