#include "decode/internal/log_mel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <opencv2/core.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "decode/internal/audio.h"

namespace isocost {
namespace {

constexpr std::size_t kFft = kMelFft;
constexpr std::size_t kHop = kMelHop;
constexpr std::size_t kSpectrum = kFft / 2 + 1;
constexpr std::size_t kPad = kFft / 2;
constexpr float kLeastPower = 1e-10F;
constexpr int kBatch = 32;  ///< Frames a call of the transform: 50 KB, stays in the cache.

double mel_to_hz(double mel) {
  constexpr double kLinearEnd = 15.0;  // 1 kHz; logarithmic beyond
  if (mel < kLinearEnd) return mel * 200.0 / 3.0;
  return 1000.0 * std::exp((mel - kLinearEnd) * std::log(6.4) / 27.0);
}

double hz_to_mel(double hz) {
  if (hz < 1000.0) return hz * 3.0 / 200.0;
  return 15.0 + std::log(hz / 1000.0) * 27.0 / std::log(6.4);
}

/// A triangle over a few neighbouring bins of the spectrum.
struct MelFilter {
  std::size_t first = 0;
  std::vector<float> weights;
};

MelFilter make_filter(double low, double centre, double high) {
  MelFilter filter;
  for (std::size_t k = 0; k < kSpectrum; ++k) {
    const double hz = static_cast<double>(k) * kRecipeSampleRate / kMelFft;
    const double rise = (hz - low) / (centre - low);
    const double fall = (high - hz) / (high - centre);
    const double weight = std::min(rise, fall);
    if (weight <= 0) continue;
    if (filter.weights.empty()) filter.first = k;
    filter.weights.push_back(static_cast<float>(weight * 2.0 / (high - low)));
  }
  return filter;
}

using MelFilters = std::vector<MelFilter>;

MelFilters make_filters(std::int64_t bins) {
  MelFilters filters;
  const double step = hz_to_mel(kRecipeSampleRate / 2.0) / static_cast<double>(bins + 1);
  for (std::int64_t m = 0; m < bins; ++m) {
    const auto mel = static_cast<double>(m);
    filters.push_back(make_filter(mel_to_hz(mel * step), mel_to_hz((mel + 1) * step),
                                  mel_to_hz((mel + 2) * step)));
  }
  return filters;
}

/// Null for other numbers than those of Whisper's models.
const MelFilters* filters_of(std::int64_t bins) {
  static const MelFilters of_80 = make_filters(80);
  static const MelFilters of_128 = make_filters(128);
  if (bins == 80) return &of_80;
  return bins == 128 ? &of_128 : nullptr;
}

std::array<float, kFft> make_hann() {
  std::array<float, kFft> hann{};
  for (std::size_t i = 0; i < kFft; ++i) {
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(i) / kMelFft;
    hann[i] = static_cast<float>(0.5 - 0.5 * std::cos(angle));
  }
  return hann;
}

const std::array<float, kFft>& hann() {
  static const std::array<float, kFft> instance = make_hann();
  return instance;
}

/// `samples` with 200 reflected ones before and behind; the edge sample itself is not repeated.
std::vector<float> reflect(std::span<const float> samples) {
  std::vector<float> padded(samples.size() + 2 * kPad);
  std::copy(samples.begin(), samples.end(), padded.begin() + kPad);
  for (std::size_t i = 1; i <= kPad; ++i) {
    padded[kPad - i] = samples[i];
    padded[kPad + samples.size() - 1 + i] = samples[samples.size() - 1 - i];
  }
  return padded;
}

/// Squares the transform's packed half spectrum: Re0, Re1, Im1, ..., Re200.
void power(const float* packed, std::array<float, kSpectrum>& out) {
  out[0] = packed[0] * packed[0];
  for (std::size_t k = 1; k < kPad; ++k) {
    const float re = packed[2 * k - 1];
    const float im = packed[2 * k];
    out[k] = re * re + im * im;
  }
  out[kPad] = packed[kFft - 1] * packed[kFft - 1];
}

void apply_filters(const std::array<float, kSpectrum>& spectrum, const MelFilters& filters,
                   float* row) {
  for (const MelFilter& filter : filters) {
    const float* bins = spectrum.data() + filter.first;
    float sum = 0;
    for (std::size_t k = 0; k < filter.weights.size(); ++k) sum += bins[k] * filter.weights[k];
    *row++ = std::log10(std::max(sum, kLeastPower));
  }
}

void transform_batch(const float* padded, int frames, const MelFilters& filters, float* rows,
                     cv::Mat& in, cv::Mat& out) {
  const std::array<float, kFft>& window = hann();
  for (int f = 0; f < frames; ++f) {
    const float* samples = padded + static_cast<std::size_t>(f) * kHop;
    float* windowed = in.ptr<float>(f);
    for (std::size_t i = 0; i < kFft; ++i) windowed[i] = samples[i] * window[i];
  }
  cv::dft(in.rowRange(0, frames), out, cv::DFT_ROWS);
  std::array<float, kSpectrum> spectrum{};
  for (int f = 0; f < frames; ++f) {
    power(out.ptr<float>(f), spectrum);
    apply_filters(spectrum, filters, rows + static_cast<std::size_t>(f) * filters.size());
  }
}

}  // namespace

Status log_mel(std::span<const float> samples, std::span<float> rows, std::int64_t bins) {
  const std::size_t frames = samples.size() / kHop;
  const MelFilters* filters = filters_of(bins);
  if (samples.size() < 4 * kHop || samples.size() % kHop != 0 || filters == nullptr ||
      rows.size() < frames * filters->size() || rows.size() % filters->size() != 0) {
    return Error(ErrorCode::kInvalidArgument, "log_mel: sizes do not fit");
  }
  try {
    const std::vector<float> padded = reflect(samples);
    cv::Mat in(kBatch, static_cast<int>(kFft), CV_32F);
    cv::Mat out;
    for (std::size_t at = 0; at < frames; at += kBatch) {
      const int batch = static_cast<int>(std::min<std::size_t>(kBatch, frames - at));
      transform_batch(padded.data() + at * kHop, batch, *filters,
                      rows.data() + at * filters->size(), in, out);
    }
  } catch (const cv::Exception& e) {
    return Error(ErrorCode::kInternal, std::string("cv::dft: ") + e.what());
  }
  std::ranges::fill(rows.subspan(frames * filters->size()), std::log10(kLeastPower));
  const float floor = *std::max_element(rows.begin(), rows.end()) - 8.0F;
  for (float& value : rows) value = (std::max(value, floor) + 4.0F) / 4.0F;
  return {};
}

}  // namespace isocost
