#pragma once

#include <cstdint>

namespace isocost {

/// Log-mel frames of 10 ms in a window of 30 s, which the encoders of sounds see.
inline constexpr std::int64_t kWindowMelFrames = 3000;
/// Frames after those of a clip: two that its last samples may reach, and one of silence.
inline constexpr std::int64_t kFramesBehindClip = 3;

}  // namespace isocost
