#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "decode/internal/frame_sampling.h"
#include "decode/internal/model_files.h"
#include "decode/internal/pixel_settings.h"

namespace isocost {

/// Settings that the video processors of all families have.
struct VideoSettings : PixelSettings {
  double fps = 0;
  std::int64_t num_frames = 0;
  std::int64_t min_frames = 4;
  std::int64_t max_frames = 768;

  FrameSampling sampling() const { return {fps, num_frames, min_frames, max_frames}; }
  /// They as JSON.
  std::string sampling_settings() const;
};

/// Reads those of the video processor; what its file does not say stays. Where neither the file nor
/// `video` says how many frames, they are 2 a second, whether or not do_sample_frames is set: every
/// frame of a video is what nobody trains on. Errors: kUnsupported.
Status read_video(Settings& settings, VideoSettings& video);

}  // namespace isocost
