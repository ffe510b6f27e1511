#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "decode/audio/audio.h"
#include "decode/audio/internal/audio_decoder.h"

extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/samplefmt.h>
#include <libswresample/swresample.h>
}

namespace isocost {
namespace {

constexpr std::size_t kOutSamples = std::size_t{8} << 10;

struct FreeSwr {
  void operator()(SwrContext* swr) const { swr_free(&swr); }
};

}  // namespace

struct Resampler::State {
  std::unique_ptr<SwrContext, FreeSwr> swr;
  std::vector<float> out;
};

Resampler::Resampler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Resampler::Resampler(Resampler&&) noexcept = default;
Resampler& Resampler::operator=(Resampler&&) noexcept = default;
Resampler::~Resampler() = default;

Result<Resampler> Resampler::create(std::int32_t sample_rate) {
  AVChannelLayout mono = AV_CHANNEL_LAYOUT_MONO;
  SwrContext* raw = nullptr;
  const int made = swr_alloc_set_opts2(&raw, &mono, AV_SAMPLE_FMT_FLT, int{kRecipeSampleRate},
                                       &mono, AV_SAMPLE_FMT_FLT, sample_rate, 0, nullptr);
  auto state = std::make_unique<State>();
  state->swr.reset(raw);
  if (made < 0 || swr_init(state->swr.get()) < 0) {
    return Error(ErrorCode::kUnsupported,
                 "audio of " + std::to_string(sample_rate) + " Hz cannot be resampled");
  }
  state->out.resize(kOutSamples);
  return Resampler(std::move(state));
}

Result<std::span<const float>> Resampler::convert(std::span<const float> samples) {
  State& s = *state_;
  const bool flush = samples.empty();
  if (!flush) {
    const int ready = swr_get_out_samples(s.swr.get(), static_cast<int>(samples.size()));
    s.out.resize(std::max(s.out.size(), static_cast<std::size_t>(std::max(0, ready))));
  }
  auto* out = reinterpret_cast<std::uint8_t*>(s.out.data());
  const auto* in = reinterpret_cast<const std::uint8_t*>(samples.data());
  const int got = swr_convert(s.swr.get(), &out, static_cast<int>(s.out.size()),
                              flush ? nullptr : &in, static_cast<int>(samples.size()));
  if (got < 0) return Error(ErrorCode::kInternal, "libswresample failed");
  return std::span<const float>(s.out.data(), static_cast<std::size_t>(got));
}

}  // namespace isocost
