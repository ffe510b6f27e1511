#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_source.h"
#include "decode/video/video.h"
#include "tests/decode/fuzz_formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using isocost::MediaFormat;
  constexpr std::int64_t kMaxPixels = 1 << 20;
  const isocost::MemoryByteSource source(std::as_bytes(std::span(data, size)));
  for (const MediaFormat format : isocost::test::fuzz_formats(
           {data, size}, isocost::Modality::kVideo,
           {MediaFormat::kMp4, MediaFormat::kMatroska, MediaFormat::kAvi})) {
    const auto shape = isocost::probe_video(source, format, kMaxPixels);
    if (!shape.has_value()) continue;
    if (shape->width < 1 || shape->height < 1 || shape->duration_us < 0) __builtin_trap();
    if (std::int64_t{shape->width} * shape->height > kMaxPixels) __builtin_trap();
  }
  return 0;
}
