#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_source.h"
#include "decode/audio/audio.h"
#include "tests/decode/fuzz_formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using isocost::MediaFormat;
  const isocost::MemoryByteSource source(std::as_bytes(std::span(data, size)));
  for (const MediaFormat format : isocost::test::fuzz_formats(
           {data, size}, isocost::Modality::kAudio,
           {MediaFormat::kWav, MediaFormat::kFlac, MediaFormat::kOggVorbis, MediaFormat::kMp3})) {
    const auto shape = isocost::probe_audio(source, format);
    if (shape.has_value() && (shape->frames < 1 || shape->sample_rate < 1)) __builtin_trap();
  }
  return 0;
}
