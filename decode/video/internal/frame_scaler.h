#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

struct AVFrame;
struct SwsContext;

namespace isocost {

/// Source of a frame's colour matrix and range.
enum class FrameColours : std::uint8_t {
  /// The frame's own; if it lacks them, BT.709 from 720 lines on and BT.601 below, limited
  /// range.
  kOwn,
  /// libswscale's defaults, which the decoders of transformers' processors take: BT.601 where the
  /// frame lacks them.
  kAsTransformers,
};

/// Converts decoded frames to packed RGB of one size, as displayed. Single-thread.
class FrameScaler {
 public:
  /// `width` and `height` are as displayed, `orientation` is EXIF's number.
  FrameScaler(std::int32_t width, std::int32_t height, std::uint8_t orientation,
              FrameColours colours);
  ~FrameScaler();
  FrameScaler(const FrameScaler&) = delete;
  FrameScaler& operator=(const FrameScaler&) = delete;

  /// Returns [height, width, 3], valid until the next call. Errors: kUnsupported (pixel format).
  Result<std::span<const std::uint8_t>> convert(const AVFrame& frame);

 private:
  struct FreeSws {
    void operator()(SwsContext* context) const;
  };

  Status prepare(const AVFrame& frame);
  void turn();

  std::int32_t width_;
  std::int32_t height_;
  std::uint8_t orientation_;
  FrameColours colours_;
  std::int32_t stored_width_;
  std::int32_t stored_height_;
  std::int32_t stride_;
  std::unique_ptr<SwsContext, FreeSws> sws_;
  std::vector<std::uint8_t> scaled_;
  std::vector<std::uint8_t> rgb_;
};

}  // namespace isocost
