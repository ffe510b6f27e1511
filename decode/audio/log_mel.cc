#include "decode/audio/log_mel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <kissfft/kissfft.hh>
#include <numbers>
#include <span>
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
  /// Takes kFft real numbers as half as many complex ones. Its factors are 2 to 5, for which it
  /// writes nothing of its own, so that threads share it.
  kissfft<Real> transform{kFft / 2, false};

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

/// Squares the absolute values of the half spectrum, whose first number holds its two real ends.
template <typename Real>
void power(const std::array<std::complex<Real>, kFft / 2>& half, std::array<Real, kSpectrum>& out) {
  out[0] = half[0].real() * half[0].real();
  for (std::size_t k = 1; k < half.size(); ++k) out[k] = std::norm(half[k]);
  out[kFft / 2] = half[0].imag() * half[0].imag();
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

/// Computes one row from the kFft samples around its frame.
template <typename Real>
void transform_frame(const float* samples, const Tables<Real>& tables, float* row) {
  std::array<Real, kFft> windowed{};
  for (std::size_t i = 0; i < kFft; ++i) windowed[i] = samples[i] * tables.hann[i];
  std::array<std::complex<Real>, kFft / 2> half{};
  tables.transform.transform_real(windowed.data(), half.data());
  std::array<Real, kSpectrum> spectrum{};
  power(half, spectrum);
  apply_filters(spectrum, tables.filters, row);
}

/// Computes the log-mel rows. Rows beyond those of the samples are silence's.
template <typename Real>
void compute(std::span<const float> samples, std::span<float> rows, const Tables<Real>& tables) {
  const std::size_t frames = samples.size() / kHop;
  const std::size_t bins = tables.filters.size();
  const std::vector<float> padded = reflect(samples);
  for (std::size_t f = 0; f < frames; ++f) {
    transform_frame(padded.data() + f * kHop, tables, rows.data() + f * bins);
  }
  std::ranges::fill(rows.subspan(frames * bins), static_cast<float>(std::log10(kLeastPower)));
  const float floor = *std::max_element(rows.begin(), rows.end()) - 8.0F;
  for (float& value : rows) value = (std::max(value, floor) + 4.0F) / 4.0F;
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
  compute(samples, rows, tables);
  return {};
}

Status exact_log_mel(std::span<const float> samples, std::int64_t bins, std::span<float> rows) {
  const Tables<double>* tables = exact_tables(bins);
  if (!are_whole_frames(samples) || tables == nullptr ||
      rows.size() < samples.size() / kHop * tables->filters.size() ||
      rows.size() % tables->filters.size() != 0) {
    return Error(ErrorCode::kInvalidArgument, "exact_log_mel: sizes do not fit");
  }
  compute(samples, rows, *tables);
  return {};
}

}  // namespace isocost
