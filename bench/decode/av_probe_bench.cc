// Measures the probing of audio and video headers, and the decoding of streams to tensors, on one
// core from memory. The media are made here, and results are checked before anything is timed.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "decode/audio/audio.h"
#include "decode/audio/log_mel.h"
#include "decode/video/video.h"
#include "tests/support/av_media.h"

namespace isocost {
namespace {

constexpr std::int64_t kMaxPixels = 178'956'970;
constexpr std::int32_t kRate = 48'000;
constexpr std::int64_t kSeconds = 20;

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

test::Bytes long_tone(MediaFormat format) {
  return test::make_audio(format, test::sine(kRate, 1, kRate * kSeconds, 440), kRate, 1);
}

void probe_audio_file(benchmark::State& state, MediaFormat format) {
  const test::Bytes bytes = long_tone(format);
  const MemoryByteSource source(bytes);
  const auto shape = probe_audio(source, format);
  require(shape.has_value() && std::abs(shape->frames - kRate * kSeconds) < kRate / 10, "shape");
  for (auto _ : state) benchmark::DoNotOptimize(probe_audio(source, format));
  state.SetItemsProcessed(state.iterations());
}

void mel_of_audio(benchmark::State& state, MediaFormat format) {
  const test::Bytes bytes = long_tone(format);
  const MemoryByteSource source(bytes);
  const PartShape shape = *probe_audio(source, format);
  const AudioPlan plan = plan_audio(shape, 1000);
  const auto rows = std::accumulate(plan.window_frames.begin(), plan.window_frames.end(), 0);
  std::vector<float> mel(static_cast<std::size_t>(rows) * kMelBins);
  require(audio_log_mel(source, shape, plan, mel).has_value(), "decode");
  for (auto _ : state) benchmark::DoNotOptimize(audio_log_mel(source, shape, plan, mel));
  state.counters["x_real_time"] = benchmark::Counter(
      static_cast<double>(state.iterations() * kSeconds), benchmark::Counter::kIsRate);
}

void mel_alone(benchmark::State& state) {
  const std::vector<float> samples = test::sine(16'000, 1, 480'000, 440);
  std::vector<float> mel(std::size_t{3000} * kMelBins);
  require(log_mel(samples, mel).has_value(), "log_mel");
  for (auto _ : state) benchmark::DoNotOptimize(log_mel(samples, mel));
  state.counters["x_real_time"] =
      benchmark::Counter(static_cast<double>(state.iterations() * 30), benchmark::Counter::kIsRate);
}

test::VideoSpec video_spec(MediaFormat container) {
  test::VideoSpec spec;
  spec.container = container;
  spec.width = 640;
  spec.height = 480;
  spec.fps = 25;
  spec.frames = 500;
  spec.gop = 50;
  spec.noise = true;
  if (container == MediaFormat::kAvi) spec.encoder = "mpeg4";
  return spec;
}

void probe_video_file(benchmark::State& state, MediaFormat format) {
  const test::Bytes bytes = test::make_video(video_spec(format));
  const MemoryByteSource source(bytes);
  const auto shape = probe_video(source, format, kMaxPixels);
  require(shape.has_value() && std::abs(shape->duration_us - 20'000'000) < 50'000, "shape");
  for (auto _ : state) benchmark::DoNotOptimize(probe_video(source, format, kMaxPixels));
  state.SetItemsProcessed(state.iterations());
}

/// Decodes `range(0)` frames, evenly spaced over 20 s: few by seeking, many by decoding all
/// between.
void frames_of_video(benchmark::State& state, MediaFormat format) {
  const test::Bytes bytes = test::make_video(video_spec(format));
  const MemoryByteSource source(bytes);
  const PartShape shape = *probe_video(source, format, kMaxPixels);
  std::vector<std::int64_t> times;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    times.push_back((2 * i + 1) * shape.duration_us / (2 * state.range(0)));
  }
  bool right = true;
  const auto sink = [&](std::size_t i, std::span<const std::uint8_t> rgb) -> Status {
    const auto expected = static_cast<int>(times[i] / 40'000);
    right = right && test::shown_number(rgb, 448, 336) == expected;
    return {};
  };
  require(video_frames(source, shape, times, 448, 336, sink).has_value() && right, "frames");
  for (auto _ : state) {
    const auto status = video_frames(source, shape, times, 448, 336,
                                     [](std::size_t, auto) -> Status { return {}; });
    require(status.has_value(), "frames");
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(probe_audio_file, wav, MediaFormat::kWav);
BENCHMARK_CAPTURE(probe_audio_file, flac, MediaFormat::kFlac);
BENCHMARK_CAPTURE(probe_audio_file, vorbis, MediaFormat::kOggVorbis);
BENCHMARK_CAPTURE(probe_audio_file, opus, MediaFormat::kOpus);
BENCHMARK_CAPTURE(probe_audio_file, mp3, MediaFormat::kMp3);
BENCHMARK_CAPTURE(probe_video_file, mp4, MediaFormat::kMp4);
BENCHMARK_CAPTURE(probe_video_file, mkv, MediaFormat::kMatroska);
BENCHMARK_CAPTURE(probe_video_file, avi, MediaFormat::kAvi);
BENCHMARK(mel_alone)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(mel_of_audio, wav, MediaFormat::kWav)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(mel_of_audio, flac, MediaFormat::kFlac)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(mel_of_audio, vorbis, MediaFormat::kOggVorbis)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(mel_of_audio, opus, MediaFormat::kOpus)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(mel_of_audio, mp3, MediaFormat::kMp3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(frames_of_video, mp4, MediaFormat::kMp4)
    ->Arg(4)
    ->Arg(32)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(frames_of_video, mkv, MediaFormat::kMatroska)
    ->Arg(4)
    ->Arg(32)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(frames_of_video, avi, MediaFormat::kAvi)
    ->Arg(4)
    ->Arg(32)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace isocost

BENCHMARK_MAIN();
