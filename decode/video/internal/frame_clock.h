#pragma once

#include <cstdint>
#include <optional>

struct AVFrame;
struct AVStream;

namespace isocost {

/// Tells when the frames of a video start, in microseconds from the first one, or from `origin` in
/// ticks of the stream. Single-thread; the stream must outlive it.
class FrameClock {
 public:
  FrameClock(const AVStream& stream, std::optional<std::int64_t> origin)
      : stream_(stream), origin_(origin) {}

  /// Moves on to a frame. The first one is the origin if none was given.
  void note(const AVFrame& frame);

  /// When the last frame starts.
  std::int64_t time_us() const { return time_us_; }
  /// The frame's duration, as far as packets or its neighbours show it.
  std::int64_t interval_us() const { return interval_us_; }
  /// When it starts in ticks of the stream.
  std::int64_t last_ticks() const { return last_ticks_; }

  /// Returns a time in ticks of the stream.
  std::int64_t ticks(std::int64_t time_us) const;

 private:
  const AVStream& stream_;
  std::optional<std::int64_t> origin_;  ///< Ticks.
  std::int64_t last_ticks_ = 0;
  std::int64_t time_us_ = 0;
  std::int64_t interval_us_ = 0;
};

}  // namespace isocost
