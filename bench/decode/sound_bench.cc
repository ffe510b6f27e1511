// Measures sounds to log-mel features on one core: WAV files of 30 s at 16 kHz, in memory, read,
// framed and transformed. Contenders take turns, in CPU time of the thread; some frames of each are
// compared with sums written down from the definition first.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <numbers>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "decode/audio/audio.h"
#include "decode/probe.h"
#include "tests/support/av_media.h"

namespace isocost {
namespace {

constexpr int kRounds = 7;
constexpr int kSounds = 4;
constexpr std::int64_t kSamples = std::int64_t{30} * kRecipeSampleRate;

struct Sound {
  std::vector<std::byte> bytes;
  std::vector<float> samples;
  PartShape shape;
};

void require(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

// Tones in noise: no frame is silent, and none is like the next.
Sound make_sound(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> noise(0, 0.05F);
  Sound sound;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const double seconds = static_cast<double>(i) / kRecipeSampleRate;
    const double hz = 300.0 + 200.0 * seed + 50.0 * seconds;
    const auto tone = static_cast<float>(0.3 * std::sin(2 * std::numbers::pi * hz * seconds));
    sound.samples.push_back(std::clamp(tone + noise(random), -0.9F, 0.9F));
  }
  sound.bytes = test::make_wav(sound.samples, kRecipeSampleRate, 1, test::WavEncoding::kFloat32);
  const auto shape = probe(MemoryByteSource(sound.bytes), "wav", {});
  require(shape.has_value(), "a WAV file is no sound");
  sound.shape = *shape;
  return sound;
}

// The energy of a frame's spectrum, which its mel bins cover except for the ends of their
// triangles.
double log_power_at(const Sound& sound, std::int64_t frame, std::int64_t bin) {
  constexpr std::int64_t kWindow = 400;
  std::complex<double> sum;
  for (std::int64_t i = 0; i < kWindow; ++i) {
    const auto at = static_cast<std::size_t>(frame * kMelHop - kWindow / 2 + i);
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / kWindow;
    const double hann = 0.5 - 0.5 * std::cos(angle);
    sum += hann * sound.samples[at] * std::polar(1.0, -angle * static_cast<double>(bin));
  }
  return std::norm(sum);
}

double hz_of_mel(double mel) {
  return mel < 15 ? mel * 200 / 3 : 1000 * std::exp((mel - 15) * std::log(6.4) / 27);
}

// A mel bin of a frame before the floor, after the definition of Slaney's filters: a
// triangle between the centres of its neighbours, of area 1.
double mel_at(const Sound& sound, std::int64_t frame, std::int64_t bin, std::int64_t bins) {
  const double last_mel = 15 + std::log(8.0) * 27 / std::log(6.4);
  const auto edge = [&](std::int64_t i) {
    return hz_of_mel(last_mel * static_cast<double>(i) / static_cast<double>(bins + 1));
  };
  const double low = edge(bin);
  const double centre = edge(bin + 1);
  const double high = edge(bin + 2);
  double sum = 0;
  for (std::int64_t k = 0; k <= 200; ++k) {
    const double hz = 40.0 * static_cast<double>(k);
    const double weight = std::min((hz - low) / (centre - low), (high - hz) / (high - centre));
    if (weight > 0) sum += weight * 2 / (high - low) * log_power_at(sound, frame, k);
  }
  return std::log10(std::max(sum, 1e-10)) / 4 + 1;
}

struct Contender {
  std::string name;
  bool exact = true;
  std::int64_t bins = 0;
  std::vector<double> seconds = {};  // of each round, all sounds

  AudioPlan plan(const Sound& sound) const {
    return exact ? plan_clip(sound.shape, bins) : plan_audio(sound.shape, 30);
  }
};

std::vector<float> features(const Contender& contender, const Sound& sound) {
  const AudioPlan plan = contender.plan(sound);
  const auto frames =
      std::accumulate(plan.window_frames.begin(), plan.window_frames.end(), std::int64_t{0});
  std::vector<float> rows(static_cast<std::size_t>(frames * plan.bins));
  require(audio_log_mel(MemoryByteSource(sound.bytes), sound.shape, plan, rows).has_value(),
          contender.name + ": fails");
  return rows;
}

void compare(const Contender& contender, const Sound& sound) {
  const std::vector<float> rows = features(contender, sound);
  const double tolerance = contender.exact ? 1e-5 : 1e-3;
  for (const std::int64_t frame : {7, 1234, 2990}) {
    for (const std::int64_t bin : {std::int64_t{0}, std::int64_t{40}, contender.bins - 1}) {
      const double expected = mel_at(sound, frame, bin, contender.bins);
      const double got = rows[static_cast<std::size_t>(frame * contender.bins + bin)];
      require(std::abs(got - expected) < tolerance, contender.name + ": frame " +
                                                        std::to_string(frame) + ", bin " +
                                                        std::to_string(bin) + " differs");
    }
  }
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double run_once(const Contender& contender, const std::vector<Sound>& sounds) {
  const double begin = thread_seconds();
  for (const Sound& sound : sounds) features(contender, sound);
  return thread_seconds() - begin;
}

void print(Contender& contender) {
  std::ranges::sort(contender.seconds);
  const auto rate = [](double seconds) { return 30.0 * kSounds / seconds; };
  std::printf("%-24s %8.0f (%6.0f to %6.0f)\n", contender.name.c_str(),
              rate(contender.seconds[contender.seconds.size() / 2]), rate(contender.seconds.back()),
              rate(contender.seconds.front()));
}

void run() {
  std::vector<Sound> sounds;
  for (std::uint32_t i = 0; i < kSounds; ++i) sounds.push_back(make_sound(i + 1));
  std::vector<Contender> contenders = {{"exact, 80 bins", true, 80},
                                       {"exact, 128 bins", true, 128},
                                       {"native28, 128 bins", false, 128}};
  for (const Contender& contender : contenders) compare(contender, sounds.front());
  for (int round = 0; round <= kRounds; ++round) {
    for (Contender& contender : contenders) {
      const double seconds = run_once(contender, sounds);
      if (round > 0) contender.seconds.push_back(seconds);  // the first one warms up
    }
  }
  std::printf("%d sounds of 30 s, %d rounds, measured in CPU time of one thread\n", kSounds,
              kRounds);
  std::printf("%-24s %s\n", "", "times real time (least to most)");
  for (Contender& contender : contenders) print(contender);
}

}  // namespace
}  // namespace isocost

int main() try {
  isocost::run();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "sound_bench: %s\n", error.what());
  return 1;
}
