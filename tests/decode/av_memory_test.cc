// The memory that sounds and videos take, against what is admitted for them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "base/sanitized.h"
#include "base/units.h"
#include "decode/audio/audio.h"
#include "decode/probe.h"
#include "decode/shape/sample_shape.h"
#include "decode/video/video.h"
#include "tests/support/av_media.h"
#include "tests/support/heap_peak.h"

namespace isocost::test {
namespace {

namespace fs = std::filesystem;

struct File {
  std::string name;
  Bytes bytes;
};

std::vector<File> goldens(const std::string& folder) {
  std::vector<File> files;
  for (const auto& entry :
       fs::directory_iterator(fs::path(ISOCOST_SOURCE_DIR) / "tests/decode" / folder)) {
    if (entry.path().extension() == ".f32") continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const auto bytes = std::as_bytes(std::span(text));
    files.push_back({entry.path().filename(), Bytes(bytes.begin(), bytes.end())});
  }
  std::ranges::sort(files, {}, &File::name);
  return files;
}

// The most that was allocated at a time, and what was predicted.
struct Memory {
  std::int64_t measured = 0;
  std::int64_t predicted = 0;
};

Memory memory_of_sound(const File& file, double seconds) {
  const MemoryByteSource source(file.bytes);
  const auto shape = probe(source, file.name, {});
  EXPECT_TRUE(shape.has_value()) << file.name;
  if (!shape) return {};
  const AudioPlan plan = plan_audio(*shape, seconds);
  const std::int64_t frames =
      std::accumulate(plan.window_frames.begin(), plan.window_frames.end(), std::int64_t{0});
  std::vector<float> mel(static_cast<std::size_t>(frames * plan.bins));
  const HeapPeak peak;
  const Status decoded = audio_log_mel(source, *shape, plan, mel);
  EXPECT_TRUE(decoded) << file.name;
  return {peak.bytes(), audio_working_set_bytes(*shape, seconds)};
}

Memory memory_of_video(const File& file) {
  const MemoryByteSource source(file.bytes);
  const auto shape = probe(source, file.name, {});
  EXPECT_TRUE(shape.has_value()) << file.name;
  if (!shape) return {};
  std::vector<std::int64_t> all(static_cast<std::size_t>(shape->frames));
  std::iota(all.begin(), all.end(), 0);
  const HeapPeak peak;
  const Status decoded = exact_video_frames(
      source, *shape, all, [](std::size_t, std::span<const std::uint8_t>) { return Status(); });
  EXPECT_TRUE(decoded) << file.name << ": " << (decoded ? "" : decoded.error().to_string());
  return {peak.bytes(), exact_video_working_set_bytes(*shape)};
}

std::string in_kib(const Memory& memory) {
  return std::to_string(memory.measured / kKiB) + " KiB of " +
         std::to_string(memory.predicted / kKiB);
}

std::vector<File> made_sounds() {
  std::vector<File> files;
  for (const auto& [name, format, rate, channels] :
       {std::tuple("a.wav", MediaFormat::kWav, 48'000, 2),
        {"wide.wav", MediaFormat::kWav, 192'000, 8},
        {"a.flac", MediaFormat::kFlac, 48'000, 2},
        {"wide.flac", MediaFormat::kFlac, 96'000, 8},
        {"a.ogg", MediaFormat::kOggVorbis, 48'000, 2},
        {"a.opus", MediaFormat::kOpus, 48'000, 2},
        {"a.mp3", MediaFormat::kMp3, 48'000, 2}}) {
    constexpr std::int64_t kSeconds = 40;
    files.push_back(
        {name, make_audio(format, sine(rate, channels, kSeconds * rate, 440), rate, channels)});
  }
  return files;
}

std::vector<File> made_videos() {
  std::vector<File> files;
  for (const auto& [name, encoder, width, height, b_frames] :
       {std::tuple("h264_small.mp4", "libx264", 320, 240, 2),
        {"h264_720.mp4", "libx264", 1280, 720, 3},
        {"h264_1088.mp4", "libx264", 1920, 1088, 3},
        {"hevc_720.mp4", "libx265", 1280, 720, 2},
        {"hevc_1088.mp4", "libx265", 1920, 1088, 2},
        {"vp9_720.webm", "libvpx-vp9", 1280, 720, 0},
        {"mpeg4_720.mp4", "mpeg4", 1280, 720, 2}}) {
    const bool is_webm = std::string(name).ends_with(".webm");
    VideoSpec spec;
    spec.container = is_webm ? MediaFormat::kMatroska : MediaFormat::kMp4;
    spec.encoder = encoder;
    spec.width = width;
    spec.height = height;
    spec.frames = 24;
    spec.gop = 12;
    spec.b_frames = b_frames;
    spec.noise = true;
    files.push_back({name, make_video(spec)});
  }
  return files;
}

constexpr double kShort = 2;  // seconds of a sound that are read
constexpr double kLong = 60;

TEST(AudioMemory, IsWithinWhatIsCounted) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers have a malloc of their own";
  for (const auto& files : {goldens("audio/golden_sounds"), made_sounds()}) {
    for (const File& file : files) {
      for (const double seconds : {kShort, kLong}) {
        const Memory memory = memory_of_sound(file, seconds);
        EXPECT_GT(memory.measured, 0) << file.name;
        EXPECT_LE(memory.measured, memory.predicted) << file.name << ": " << in_kib(memory);
      }
    }
  }
}

TEST(VideoMemory, IsWithinWhatIsCounted) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers have a malloc of their own";
  for (const auto& files : {goldens("video/golden_videos"), made_videos()}) {
    for (const File& file : files) {
      const Memory memory = memory_of_video(file);
      EXPECT_GT(memory.measured, 0) << file.name;
      EXPECT_LE(memory.measured, memory.predicted) << file.name << ": " << in_kib(memory);
    }
  }
}

// Several large media are decoded at a time only if they are not counted many times over. A video
// is counted with the most frames that its codec may keep, of which these need a few.
TEST(AudioAndVideoMemory, AreNotCountedManyTimesOver) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers have a malloc of their own";
  for (const File& file : made_sounds()) {
    const Memory memory = memory_of_sound(file, kLong);
    EXPECT_LE(memory.predicted, 3 * memory.measured) << file.name << ": " << in_kib(memory);
  }
  for (const File& file : made_videos()) {
    if (!file.name.starts_with("h264_1088") && !file.name.starts_with("hevc_1088")) continue;
    const Memory memory = memory_of_video(file);
    EXPECT_LE(memory.predicted, 5 * memory.measured) << file.name << ": " << in_kib(memory);
  }
}

}  // namespace
}  // namespace isocost::test
