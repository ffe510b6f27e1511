// Reads names of files with sounds and videos, a line each, and writes what Isocost makes of each:
// - "sound FORMAT RATE SAMPLES", with as many mono floats of the host's byte order behind the line;
// - "video FORMAT WIDTH HEIGHT FRAMES", with each frame by number in RGB behind the line "frame",
//   then "whole" or "refused MESSAGE", then "sampled VERDICT": whether a few frames alone, by time
//   and by number, are the same, "whole" or a message;
// - "refused MESSAGE".
// A file that ends the process is the last one asked for, so whoever asks can go on with a new
// process behind it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/audio.h"
#include "decode/audio/internal/audio_decoder.h"
#include "decode/probe.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"
#include "decode/video/video.h"

namespace isocost {
namespace {

std::uint64_t hash_of(std::span<const std::uint8_t> bytes) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const std::uint8_t byte : bytes) value = (value ^ byte) * 0x100000001B3;
  return value;
}

/// Returns the samples with as many zeros as a recipe would add.
Result<std::vector<float>> samples_of(const ByteSource& source, const PartShape& shape) {
  constexpr double kWhole = 1e9;
  const AudioPlan plan = plan_audio(shape, kWhole);
  const auto rows =
      std::accumulate(plan.window_frames.begin(), plan.window_frames.end(), std::int64_t{0});
  std::vector<float> mel(static_cast<std::size_t>(rows * plan.bins));
  ISOCOST_TRY(audio_log_mel(source, shape, plan, mel));
  const bool is_ogg = shape.format == MediaFormat::kOggVorbis || shape.format == MediaFormat::kOpus;
  ISOCOST_ASSIGN(const auto decoder, is_ogg ? open_checked_ogg(source, shape.format, shape.frames)
                                            : open_audio(source, shape.format));
  std::vector<float> samples;
  while (std::ssize(samples) < shape.frames) {
    ISOCOST_ASSIGN(const auto chunk, decoder->read());
    if (chunk.empty()) break;
    samples.insert(samples.end(), chunk.begin(), chunk.end());
  }
  samples.resize(static_cast<std::size_t>(shape.frames));
  return samples;
}

using Hashes = std::vector<std::uint64_t>;

/// Decodes every `step`-th frame, the last one among them, and passes them to `show`.
template <typename Show>
Status decode_by_number(const ByteSource& source, const PartShape& shape, std::int64_t step,
                        const Show& show) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = shape.frames - 1; i >= 0; i -= step) indices.push_back(i);
  std::ranges::reverse(indices);
  return exact_video_frames(source, shape, indices,
                            [&](std::size_t, std::span<const std::uint8_t> rgb) -> Status {
                              show(rgb);
                              return {};
                            });
}

/// Decodes two frames a second in a small size, as a recipe by time does.
Status decode_by_time(const ByteSource& source, const PartShape& shape) {
  constexpr std::int64_t kStepUs = 500'000;
  constexpr std::int32_t kSide = 28;
  std::vector<std::int64_t> times_us;
  for (std::int64_t at = 0; at == 0 || at < shape.duration_us; at += kStepUs) {
    times_us.push_back(at);
  }
  const auto ignore = [](std::size_t, std::span<const std::uint8_t>) -> Status { return {}; };
  return video_frames(source, shape, times_us, kSide, kSide, ignore);
}

/// Compares what is made of a few frames with what is made of all, `all`, which is empty where that
/// failed.
std::string verdict_of_sampled(const ByteSource& source, const PartShape& shape,
                               const Hashes& all) {
  if (const Status by_time = decode_by_time(source, shape); !by_time) {
    return "by time: " + by_time.error().message();
  }
  for (const std::int64_t step : {std::int64_t{7}, std::int64_t{30}, shape.frames}) {
    const std::string name = "every " + std::to_string(step) + ". frame: ";
    Hashes some;
    const auto keep = [&](std::span<const std::uint8_t> rgb) { some.push_back(hash_of(rgb)); };
    const Status status = decode_by_number(source, shape, step, keep);
    if (!status) return name + status.error().message();
    for (std::size_t i = 0; !all.empty() && i < some.size(); ++i) {
      const std::size_t back = i * static_cast<std::size_t>(step);
      if (some[some.size() - 1 - i] != all[all.size() - 1 - back]) return name + "another one";
    }
  }
  return "whole";
}

Status answer_sound(const ByteSource& source, const PartShape& shape) {
  ISOCOST_ASSIGN(const std::vector<float> samples, samples_of(source, shape));
  std::cout << "sound " << format_name(shape.format) << ' ' << shape.sample_rate << ' '
            << samples.size() << '\n';
  std::cout.write(reinterpret_cast<const char*>(samples.data()),
                  static_cast<std::streamsize>(samples.size() * sizeof(float)));
  return {};
}

void answer_video(const ByteSource& source, const PartShape& shape) {
  std::cout << "video " << format_name(shape.format) << ' ' << shape.width << ' ' << shape.height
            << ' ' << shape.frames << '\n';
  Hashes all;
  const auto show = [&](std::span<const std::uint8_t> rgb) {
    all.push_back(hash_of(rgb));
    std::cout << "frame\n";
    std::cout.write(reinterpret_cast<const char*>(rgb.data()),
                    static_cast<std::streamsize>(rgb.size()));
  };
  const Status status = decode_by_number(source, shape, 1, show);
  if (status) {
    std::cout << "whole\n";
  } else {
    std::cout << "refused " << status.error().message() << '\n';
    all.clear();
  }
  std::cout << "sampled " << verdict_of_sampled(source, shape, all) << '\n';
}

Status answer(const std::string& name) {
  std::ifstream stream(name, std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(stream)), {});
  const MemoryByteSource source(std::as_bytes(std::span(file)));
  ISOCOST_ASSIGN(const PartShape shape, probe(source, "a.mp3", {}));
  switch (shape.modality) {
    case Modality::kAudio:
      return answer_sound(source, shape);
    case Modality::kVideo:
      answer_video(source, shape);
      return {};
    default:
      return Error(ErrorCode::kUnsupported, "is neither sound nor video");
  }
}

}  // namespace
}  // namespace isocost

int main() {
  for (std::string name; std::getline(std::cin, name);) {
    const isocost::Status done = isocost::answer(name);
    if (!done) std::cout << "refused " << done.error().message() << '\n';
    std::cout << std::flush;
  }
  return 0;
}
