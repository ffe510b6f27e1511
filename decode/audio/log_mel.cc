#include "decode/audio/log_mel.h"

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
#include "decode/audio/audio.h"

namespace isocost {
namespace {

constexpr std::size_t kFft = kMelFft;
constexpr std::size_t kHop = kMelHop;
constexpr std::size_t kSpectrum = kFft / 2 + 1;
constexpr std::size_t kPad = kFft / 2;
constexpr double kLeastPower = 1e-10;  ///< power of silence
constexpr int kBatch =
    32;  ///< Frames per call of the transform; their 50 or 100 KB stay in the cache.

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
template <typename Real>
struct MelFilter {
  std::size_t first = 0;
  std::vector<Real> weights;
};

template <typename Real>
MelFilter<Real> make_filter(double low, double centre, double high) {
  MelFilter<Real> filter;
  for (std::size_t k = 0; k < kSpectrum; ++k) {
    const double hz = static_cast<double>(k) * kRecipeSampleRate / kMelFft;
    const double rise = (hz - low) / (centre - low);
    const double fall = (high - hz) / (high - centre);
    const double weight = std::min(rise, fall);
    if (weight <= 0) continue;
    if (filter.weights.empty()) filter.first = k;
    filter.weights.push_back(static_cast<Real>(weight * 2.0 / (high - low)));
  }
  return filter;
}

template <typename Real>
struct Tables {
  std::array<Real, kFft> hann{};
  std::vector<MelFilter<Real>> filters;

  explicit Tables(std::int64_t bins) {
    for (std::size_t i = 0; i < kFft; ++i) {
      const double angle = 2.0 * std::numbers::pi * static_cast<double>(i) / kMelFft;
      hann[i] = static_cast<Real>(0.5 - 0.5 * std::cos(angle));
    }
    const double step = hz_to_mel(kRecipeSampleRate / 2.0) / static_cast<double>(bins + 1);
    for (std::int64_t m = 0; m < bins; ++m) {
      const auto mel = static_cast<double>(m);
      filters.push_back(make_filter<Real>(mel_to_hz(mel * step), mel_to_hz((mel + 1) * step),
                                          mel_to_hz((mel + 2) * step)));
    }
  }
};

/// Returns the tables for this number of bins; null for numbers other than those of Whisper's
/// models.
const Tables<double>* exact_tables(std::int64_t bins) {
  static const Tables<double> of_80(80);
  static const Tables<double> of_128(128);
  if (bins == 80) return &of_80;
  return bins == 128 ? &of_128 : nullptr;
}

/// Returns `samples` with 200 reflected ones before and after them; the edge sample itself is not
/// repeated.
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
template <typename Real>
void power(const Real* packed, std::array<Real, kSpectrum>& out) {
  out[0] = packed[0] * packed[0];
  for (std::size_t k = 1; k < kPad; ++k) {
    const Real re = packed[2 * k - 1];
    const Real im = packed[2 * k];
    out[k] = re * re + im * im;
  }
  out[kPad] = packed[kFft - 1] * packed[kFft - 1];
}

template <typename Real>
void apply_filters(const std::array<Real, kSpectrum>& spectrum,
                   const std::vector<MelFilter<Real>>& filters, float* row) {
  for (const MelFilter<Real>& filter : filters) {
    const Real* bins = spectrum.data() + filter.first;
    Real sum = 0;
    for (std::size_t k = 0; k < filter.weights.size(); ++k) sum += bins[k] * filter.weights[k];
    *row++ = static_cast<float>(std::log10(std::max(sum, static_cast<Real>(kLeastPower))));
  }
}

template <typename Real>
void transform_batch(const float* padded, int frames, const Tables<Real>& tables, float* rows,
                     cv::Mat& in, cv::Mat& out) {
  for (int f = 0; f < frames; ++f) {
    const float* samples = padded + static_cast<std::size_t>(f) * kHop;
    Real* windowed = in.ptr<Real>(f);
    for (std::size_t i = 0; i < kFft; ++i) windowed[i] = samples[i] * tables.hann[i];
  }
  cv::dft(in.rowRange(0, frames), out, cv::DFT_ROWS);
  std::array<Real, kSpectrum> spectrum{};
  for (int f = 0; f < frames; ++f) {
    power(out.ptr<Real>(f), spectrum);
    apply_filters(spectrum, tables.filters,
                  rows + static_cast<std::size_t>(f) * tables.filters.size());
  }
}

/// Computes the log-mel rows. Rows beyond those of the samples are silence's.
template <typename Real>
Status compute(std::span<const float> samples, std::span<float> rows, const Tables<Real>& tables) {
  const std::size_t frames = samples.size() / kHop;
  const std::size_t bins = tables.filters.size();
  try {
    const std::vector<float> padded = reflect(samples);
    cv::Mat in(kBatch, static_cast<int>(kFft), cv::DataType<Real>::type);
    cv::Mat out;
    for (std::size_t at = 0; at < frames; at += kBatch) {
      const int batch = static_cast<int>(std::min<std::size_t>(kBatch, frames - at));
      transform_batch(padded.data() + at * kHop, batch, tables, rows.data() + at * bins, in, out);
    }
  } catch (const cv::Exception& e) {
    return Error(ErrorCode::kInternal, std::string("cv::dft: ") + e.what());
  }
  std::ranges::fill(rows.subspan(frames * bins), static_cast<float>(std::log10(kLeastPower)));
  const float floor = *std::max_element(rows.begin(), rows.end()) - 8.0F;
  for (float& value : rows) value = (std::max(value, floor) + 4.0F) / 4.0F;
  return {};
}

bool are_whole_frames(std::span<const float> samples) {
  return samples.size() >= 4 * kHop && samples.size() % kHop == 0;
}

}  // namespace

Status log_mel(std::span<const float> samples, std::span<float> rows) {
  static const Tables<float> tables(kMelBins);
  if (!are_whole_frames(samples) || rows.size() != samples.size() / kHop * kMelBins) {
    return Error(ErrorCode::kInvalidArgument, "log_mel: sizes do not fit");
  }
  return compute(samples, rows, tables);
}

Status exact_log_mel(std::span<const float> samples, std::int64_t bins, std::span<float> rows) {
  const Tables<double>* tables = exact_tables(bins);
  if (!are_whole_frames(samples) || tables == nullptr ||
      rows.size() < samples.size() / kHop * tables->filters.size() ||
      rows.size() % tables->filters.size() != 0) {
    return Error(ErrorCode::kInvalidArgument, "exact_log_mel: sizes do not fit");
  }
  return compute(samples, rows, *tables);
}

}  // namespace isocost
