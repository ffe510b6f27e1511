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

/// Returns the settings on which the text of a video's frames depends, as JSON.
std::string sampling_settings(const FrameSampling& sampling);

/// Reads the settings of the video processor; settings that its file lacks keep their values. If
/// neither the file nor `video` gives the number of frames, 2 a second are taken, whether or not
/// do_sample_frames is set, since training on every frame is not practical. `type`: the class of
/// the family's video processor. Errors: kUnsupported, also for a file of another class.
Status read_video(Settings& settings, VideoSettings& video, std::string_view type);

}  // namespace isocost
