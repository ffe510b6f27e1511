#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/audio.h"
#include "decode/audio/internal/audio_decoder.h"
#include "decode/audio/log_mel.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

constexpr std::int64_t kTolerance = kRecipeSampleRate / 10;  ///< Zeros that may be added: 0.1 s.

/// Collects 16 kHz samples; turns each window into mel rows as soon as it is full.
class WindowWriter {
 public:
  WindowWriter(const AudioPlan& plan, std::span<float> mel)
      : plan_(plan), mel_(mel), room_(plan.samples) {
    next_window();
  }

  bool full() const { return taken_ >= room_; }
  std::int64_t taken() const { return taken_; }

  Status add(std::span<const float> samples) {
    const auto useful = static_cast<std::size_t>(
        std::min<std::int64_t>(room_ - taken_, static_cast<std::int64_t>(samples.size())));
    samples = samples.first(useful);
    taken_ += static_cast<std::int64_t>(useful);
    while (!samples.empty()) {
      const std::size_t part = std::min(samples.size(), window_.size() - filled_);
      std::copy_n(samples.begin(), part, window_.begin() + static_cast<std::ptrdiff_t>(filled_));
      filled_ += part;
      samples = samples.subspan(part);
      if (filled_ == window_.size()) ISOCOST_TRY(flush());
    }
    return {};
  }

  /// Fills up with zeros to the end of the plan.
  Status finish() {
    while (index_ < plan_.window_frames.size()) ISOCOST_TRY(flush());
    return {};
  }

 private:
  void next_window() {
    filled_ = 0;
    const bool more = index_ < plan_.window_frames.size();
    const std::int64_t frames =
        more ? std::min<std::int64_t>(plan_.window_frames[index_], kWindowMelFrames) : 0;
    window_.assign(static_cast<std::size_t>(frames * kMelHop), 0);
  }

  Status flush() {
    const auto values = static_cast<std::size_t>(plan_.window_frames[index_] * plan_.bins);
    const std::span<float> rows = mel_.first(values);
    ISOCOST_TRY(plan_.filled ? exact_log_mel(window_, plan_.bins, rows) : log_mel(window_, rows));
    mel_ = mel_.subspan(values);
    ++index_;
    next_window();
    return {};
  }

  const AudioPlan& plan_;
  std::span<float> mel_;
  const std::int64_t room_;
  std::int64_t taken_ = 0;
  std::vector<float> window_;
  std::size_t filled_ = 0;
  std::size_t index_ = 0;
};

Error ends_early(double said_s, double decoded_s) {
  char text[96];
  std::snprintf(text, sizeof text, "its audio ends early: the header says %.2f s, decoded %.2f s",
                said_s, decoded_s);
  return corrupt(text);
}

/// Checks the number of decoded samples. A lossless stream has exactly as many as its header says;
/// coders with a look-ahead may differ by a block or two.
Status check_length(const PartShape& shape, std::int64_t decoded, std::int64_t made,
                    std::int64_t wanted) {
  const bool lossless = shape.format == MediaFormat::kWav || shape.format == MediaFormat::kFlac ||
                        shape.format == MediaFormat::kAiff;
  const bool short_of = lossless ? decoded < shape.frames : wanted - made > kTolerance;
  if (!short_of && made > 0) return {};
  return ends_early(static_cast<double>(shape.frames) / shape.sample_rate,
                    static_cast<double>(made) / kRecipeSampleRate);
}

/// Returns silence that is put after a sound shorter than the resampler's filter, of which it
/// would make nothing; none for a longer one.
std::vector<float> silence_behind(std::int64_t decoded, std::int32_t sample_rate) {
  constexpr std::int64_t kFilter = 64;  // taps at the lower of both rates, and as many again
  const std::int64_t filter =
      std::max<std::int64_t>(kFilter, kFilter * sample_rate / kRecipeSampleRate);
  const bool is_short = decoded > 0 && decoded < filter && sample_rate != kRecipeSampleRate;
  return std::vector<float>(is_short ? static_cast<std::size_t>(filter) : 0);
}

Status decode_windows(AudioDecoder& decoder, const PartShape& shape, const AudioPlan& plan,
                      WindowWriter& windows) {
  ISOCOST_ASSIGN(Resampler resampler, Resampler::create(decoder.sample_rate()));
  std::int64_t decoded = 0;
  std::vector<float> silence;
  bool flushing = false;
  while (!windows.full()) {
    std::span<const float> chunk;
    if (!flushing) {
      ISOCOST_ASSIGN(chunk, decoder.read());
      decoded += static_cast<std::int64_t>(chunk.size());
      flushing = chunk.empty();
      if (flushing) chunk = silence = silence_behind(decoded, decoder.sample_rate());
    }
    ISOCOST_ASSIGN(const auto ready, resampler.convert(chunk));
    if (flushing && ready.empty()) break;
    ISOCOST_TRY(windows.add(ready));
  }
  if (flushing) ISOCOST_TRY(check_length(shape, decoded, windows.taken(), plan.samples));
  return windows.finish();
}

/// Opens the decoder. Of Ogg, checks the pages that the plan needs.
Result<std::unique_ptr<AudioDecoder>> open_planned(const ByteSource& source, const PartShape& shape,
                                                   const AudioPlan& plan) {
  const bool is_ogg = shape.format == MediaFormat::kOggVorbis || shape.format == MediaFormat::kOpus;
  if (!is_ogg) return open_audio(source, shape.format);
  const std::int64_t seconds = plan.samples / kRecipeSampleRate + 2;
  return open_checked_ogg(source, shape.format, seconds * shape.sample_rate);
}

}  // namespace

Status audio_log_mel(const ByteSource& source, const PartShape& shape, const AudioPlan& plan,
                     std::span<float> mel) {
  const auto frames =
      std::accumulate(plan.window_frames.begin(), plan.window_frames.end(), std::int64_t{0});
  if (static_cast<std::int64_t>(mel.size()) != frames * plan.bins) {
    return Error(ErrorCode::kInvalidArgument, "audio_log_mel: the plan needs " +
                                                  std::to_string(frames) + " rows of " +
                                                  std::to_string(plan.bins));
  }
  if (frames == 0) return {};
  ISOCOST_ASSIGN(const auto opened, open_planned(source, shape, plan));
  AudioDecoder& decoder = *opened;
  if (decoder.channels() != shape.channels) {
    return corrupt("its audio stream has other channels than its header says");
  }
  if (shape.format != MediaFormat::kOpus && decoder.sample_rate() != shape.sample_rate) {
    return corrupt("its audio stream has another rate than its header says");
  }
  WindowWriter windows(plan, mel);
  return decode_windows(decoder, shape, plan, windows);
}

}  // namespace isocost
