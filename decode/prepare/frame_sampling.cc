#include "decode/prepare/frame_sampling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "decode/prepare/sample_plan.h"

namespace isocost {
namespace {

/// Returns torch.arange(start, frames, frames / count).int(), without a last number beyond the
/// video that rounding may add. torch computes steps in double and rounds them to float, in groups
/// of 16 values except for the last ones: it rounds the first value of each half of 8 before it
/// adds the steps of the others.
std::vector<std::int64_t> strided(double start, std::int64_t frames, std::int64_t count) {
  constexpr std::int64_t kLanes = 8;
  const double step = static_cast<double>(frames) / static_cast<double>(count);
  const auto size =
      static_cast<std::int64_t>(std::ceil((static_cast<double>(frames) - start) / step));
  const std::int64_t in_groups = size / (2 * kLanes) * (2 * kLanes);
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t base = i < in_groups ? i / kLanes * kLanes : i;
    const auto rounded = static_cast<float>(start + step * static_cast<double>(base));
    const auto value = static_cast<float>(rounded + step * static_cast<double>(i - base));
    const auto index = static_cast<std::int64_t>(value);
    if (index < frames) indices.push_back(index);
  }
  return indices;
}

/// Returns numpy.linspace(0, frames - 1, count).round().
std::vector<std::int64_t> to_the_last(std::int64_t frames, std::int64_t count) {
  const auto last = static_cast<double>(frames - 1);
  const double step = last / static_cast<double>(std::max<std::int64_t>(count - 1, 1));
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_end = i > 0 && i + 1 == count;
    indices.push_back(std::llrint(is_end ? last : step * static_cast<double>(i)));
  }
  return indices;
}

/// Returns the number of frames that follows from frames a second, before bounds.
Result<double> wanted(const PartShape& shape, double fps) {
  ISOCOST_ASSIGN(const double rate, frames_a_second(shape));
  return static_cast<double>(shape.frames) / rate * fps;
}

/// Returns int() of any number.
std::int64_t whole(double number, std::int64_t most) {
  return static_cast<std::int64_t>(std::min(number, static_cast<double>(most)));
}

}  // namespace

Result<double> frames_a_second(const PartShape& shape) {
  constexpr std::int64_t kMostFrames = std::int64_t{1} << 40;
  if (shape.frames < 1 || shape.frames > kMostFrames) return impossible_part(shape, "frames");
  if (shape.sample_rate < 1 || shape.channels < 1) return impossible_part(shape, "a frame rate");
  return static_cast<double>(shape.sample_rate) / shape.channels;
}

std::vector<double> seconds_of(const Result<std::vector<std::int64_t>>& frames,
                               const PartShape& shape) {
  std::vector<double> seconds;
  const auto rate = frames_a_second(shape);
  if (!frames || !rate) return seconds;
  for (const std::int64_t frame : *frames) seconds.push_back(static_cast<double>(frame) / *rate);
  return seconds;
}

Result<std::vector<std::int64_t>> frames_in_pairs(const PartShape& shape,
                                                  const FrameSampling& how) {
  ISOCOST_ASSIGN(const double by_rate, wanted(shape, how.fps));
  std::int64_t pairs = 0;
  if (how.num_frames > 0) {
    pairs = std::lrint(static_cast<double>(how.num_frames) / 2);
    pairs = std::min(pairs, shape.frames / 2);
  } else {
    const std::int64_t most = std::min(how.max_frames, shape.frames) / 2 * 2;
    const double least = std::max(by_rate, static_cast<double>(how.min_frames));
    pairs = static_cast<std::int64_t>(std::floor(std::min(least, static_cast<double>(most)) / 2));
  }
  if (shape.frames == 1) return std::vector<std::int64_t>{0};
  return strided(0, shape.frames, 2 * std::max<std::int64_t>(pairs, 1));
}

Result<std::vector<std::int64_t>> frames_to_the_last(const PartShape& shape,
                                                     const FrameSampling& how) {
  ISOCOST_ASSIGN(const double by_rate, wanted(shape, how.fps));
  if (how.num_frames > 0) return to_the_last(shape.frames, how.num_frames);
  const std::int64_t least = std::max(whole(by_rate, how.max_frames), how.min_frames);
  const std::int64_t count = std::min({least, how.max_frames, shape.frames});
  return to_the_last(shape.frames, std::max<std::int64_t>(count, 1));
}

Result<std::vector<std::int64_t>> frames_in_slices(const PartShape& shape,
                                                   const FrameSampling& how) {
  ISOCOST_ASSIGN(const double by_rate, wanted(shape, how.fps));
  const std::int64_t asked = how.num_frames > 0 ? how.num_frames : whole(by_rate, shape.frames);
  const std::int64_t count = std::clamp<std::int64_t>(asked, 1, shape.frames);
  const double slice = static_cast<double>(shape.frames) / static_cast<double>(count);
  return strided(slice / 2, shape.frames, count);
}

Result<std::vector<std::int64_t>> frames_at_steps(const PartShape& shape, std::int64_t count) {
  ISOCOST_TRY(frames_a_second(shape));
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(i * shape.frames / count);
  return indices;
}

}  // namespace isocost
