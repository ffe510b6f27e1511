#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_source.h"
#include "decode/video/video.h"
#include "tests/decode/fuzz_formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using isocost::MediaFormat;
  constexpr std::int64_t kMaxPixels = 1 << 16;
  const isocost::MemoryByteSource source(std::as_bytes(std::span(data, size)));
  for (const MediaFormat format : isocost::test::fuzz_formats(
           {data, size}, isocost::Modality::kVideo,
           {MediaFormat::kMp4, MediaFormat::kMatroska, MediaFormat::kAvi})) {
    const auto shape = isocost::probe_video(source, format, kMaxPixels);
    if (!shape.has_value()) continue;
    const std::array<std::int64_t, 3> times = {0, shape->duration_us / 2, shape->duration_us};
    std::size_t calls = 0;
    const auto status = isocost::video_frames(
        source, *shape, times, 28, 28,
        [&](std::size_t index, std::span<const std::uint8_t> rgb) -> isocost::Status {
          if (index != calls++ || rgb.size() != 28U * 28U * 3U) __builtin_trap();
          return {};
        });
    if (status.has_value() && calls != times.size()) __builtin_trap();
  }
  return 0;
}
