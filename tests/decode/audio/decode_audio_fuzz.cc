#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "base/byte_source.h"
#include "decode/audio/audio.h"
#include "tests/decode/fuzz_formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using isocost::MediaFormat;
  constexpr double kMaxSeconds = 0.5;
  const isocost::MemoryByteSource source(std::as_bytes(std::span(data, size)));
  for (const MediaFormat format : isocost::test::fuzz_formats(
           {data, size}, isocost::Modality::kAudio,
           {MediaFormat::kWav, MediaFormat::kFlac, MediaFormat::kOggVorbis, MediaFormat::kMp3})) {
    const auto shape = isocost::probe_audio(source, format);
    if (!shape.has_value()) continue;
    const isocost::AudioPlan plan = isocost::plan_audio(*shape, kMaxSeconds);
    const auto frames = std::accumulate(plan.window_frames.begin(), plan.window_frames.end(), 0);
    std::vector<float> mel(static_cast<std::size_t>(frames) * isocost::kMelBins);
    if (!isocost::audio_log_mel(source, *shape, plan, mel).has_value()) continue;
    for (const float value : mel) {
      if (!std::isfinite(value)) __builtin_trap();
    }
  }
  return 0;
}
