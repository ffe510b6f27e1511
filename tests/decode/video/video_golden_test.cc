// Frames by number against PyAV: make_video_goldens.py made video_goldens.txt and golden_videos.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/probe.h"
#include "decode/shape/sample_shape.h"
#include "decode/video/video.h"
#include "tests/decode/video/golden_video.h"
#include "tests/support/test_pattern.h"

namespace isocost {
namespace {

constexpr const char* kFolder = ISOCOST_SOURCE_DIR "/tests/decode/video/";

struct Golden {
  std::string name;
  std::int64_t frames = 0;
  std::int32_t numerator = 0;
  std::int32_t denominator = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::uint64_t hash = 0;
};

std::vector<Golden> goldens() {
  std::ifstream lines(std::string(kFolder) + "video_goldens.txt");
  std::vector<Golden> all;
  Golden one;
  while (lines >> one.name >> one.frames >> one.numerator >> one.denominator >> one.width >>
         one.height >> std::hex >> one.hash >> std::dec) {
    all.push_back(one);
  }
  return all;
}

using Frames = std::vector<std::vector<std::uint8_t>>;

Frames frames_of(const ByteSource& source, const PartShape& shape,
                 const std::vector<std::int64_t>& indices) {
  Frames frames;
  const auto keep = [&](std::size_t, std::span<const std::uint8_t> rgb) -> Status {
    frames.emplace_back(rgb.begin(), rgb.end());
    return {};
  };
  const Status status = exact_video_frames(source, shape, indices, keep);
  EXPECT_TRUE(status.has_value()) << status.error().to_string();
  return frames;
}

TEST(VideoGolden, FramesAndRatesAreThoseOfPyAv) {
  const auto all = goldens();
  ASSERT_EQ(all.size(), 163U);
  for (const Golden& golden : all) {
    SCOPED_TRACE(golden.name);
    const auto bytes = test::golden_video(golden.name);
    const MemoryByteSource source(bytes);
    const auto shape = probe(source, golden.name, {});
    ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
    EXPECT_EQ(shape->frames, golden.frames);
    EXPECT_EQ(shape->width, golden.width);
    EXPECT_EQ(shape->height, golden.height);
    EXPECT_EQ(shape->sample_rate, golden.numerator);
    EXPECT_EQ(shape->channels, golden.denominator);
    std::vector<std::int64_t> indices(static_cast<std::size_t>(shape->frames));
    std::iota(indices.begin(), indices.end(), 0);
    const Frames frames = frames_of(source, *shape, indices);
    std::vector<std::uint8_t> rgb;
    for (const auto& frame : frames) rgb.insert(rgb.end(), frame.begin(), frame.end());
    if (golden.hash != 0) {
      EXPECT_EQ(test::fnv1a(rgb), golden.hash);
    }
  }
}

// Seeking to key frames does not miscount, whatever frames are asked for.
TEST(VideoGolden, AFrameIsTheSameAloneAndAmongOthers) {
  for (const Golden& golden : goldens()) {
    SCOPED_TRACE(golden.name);
    const auto bytes = test::golden_video(golden.name);
    const MemoryByteSource source(bytes);
    const PartShape shape = probe(source, golden.name, {}).value();
    std::vector<std::int64_t> indices(static_cast<std::size_t>(shape.frames));
    std::iota(indices.begin(), indices.end(), 0);
    const Frames all = frames_of(source, shape, indices);
    ASSERT_EQ(all.size(), indices.size());
    for (const std::int64_t step : {1, 7, 20}) {
      std::vector<std::int64_t> some;
      for (std::int64_t i = shape.frames - 1; i >= 0; i -= step) some.insert(some.begin(), i);
      some.push_back(some.back());  // the same twice
      const Frames found = frames_of(source, shape, some);
      ASSERT_EQ(found.size(), some.size());
      for (std::size_t i = 0; i < some.size(); ++i) {
        EXPECT_EQ(found[i], all[static_cast<std::size_t>(some[i])]) << some[i];
      }
    }
    for (std::int64_t i = 0; i < shape.frames; i += 5) {
      const Frames alone = frames_of(source, shape, {i});
      ASSERT_EQ(alone.size(), 1U);
      EXPECT_EQ(alone.front(), all[static_cast<std::size_t>(i)]) << i;
    }
  }
}

// Behind a key frame that only begins to refresh the picture, a decoder shows nothing at first.
TEST(VideoGolden, AFrameByTimeIsTheSameAloneAndAmongOthers) {
  for (const std::string name : {"refresh.mp4", "open_b.mp4", "late.mkv"}) {
    SCOPED_TRACE(name);
    const auto bytes = test::golden_video(name);
    const MemoryByteSource source(bytes);
    const PartShape shape = probe(source, name, {}).value();
    const auto frames_at = [&](const std::vector<std::int64_t>& times_us) {
      Frames frames;
      const auto keep = [&](std::size_t index, std::span<const std::uint8_t> rgb) -> Status {
        EXPECT_EQ(index, frames.size());
        frames.emplace_back(rgb.begin(), rgb.end());
        return {};
      };
      const Status status = video_frames(source, shape, times_us, 48, 32, keep);
      EXPECT_TRUE(status.has_value()) << status.error().to_string();
      return frames;
    };
    std::vector<std::int64_t> times_us;
    for (std::int64_t i = 0; i < shape.frames; ++i) times_us.push_back(i * 40'000);
    const Frames all = frames_at(times_us);
    ASSERT_EQ(all.size(), times_us.size());
    for (std::size_t i = 0; i + 9 < all.size(); ++i) {
      const Frames some = frames_at({times_us[i], times_us[i + 9]});
      ASSERT_EQ(some.size(), 2U);
      EXPECT_EQ(some[0], all[i]) << i;
      EXPECT_EQ(some[1], all[i + 9]) << i;
    }
  }
}

TEST(VideoGolden, ADurationBeginsWithTheFirstFrameAndEndsWithTheLast) {
  for (const Golden& golden : goldens()) {
    const bool is_late = golden.name.starts_with("late_key") || golden.name == "late.mkv";
    const bool is_stream = std::ranges::any_of(
        std::vector<std::string>{".ts", ".mpg", ".m2ts", ".flv", ".wmv", ".asf", ".ogv", ".vob"},
        [&](const std::string& end) { return golden.name.ends_with(end); });
    if (!is_late && !is_stream) continue;
    const auto bytes = test::golden_video(golden.name);
    const auto shape = probe(MemoryByteSource(bytes), golden.name, {});
    ASSERT_TRUE(shape.has_value()) << golden.name;
    const double frame_us = 1e6 * golden.denominator / golden.numerator;
    EXPECT_NEAR(static_cast<double>(shape->duration_us),
                frame_us * static_cast<double>(golden.frames), 1.1 * frame_us)
        << golden.name;
  }
}

// The demuxer drops a page that is cut off, and the video would be shorter.
TEST(VideoGolden, RefusesACutOffOggVideo) {
  for (const std::string name : {"theora.ogv", "sound.ogv"}) {
    const auto bytes = test::golden_video(name);
    ASSERT_TRUE(probe(MemoryByteSource(bytes), name, {}).has_value()) << name;
    for (const std::size_t cut : {bytes.size() - 1, bytes.size() * 3 / 4, bytes.size() / 2}) {
      const auto shape = probe(MemoryByteSource(std::span(bytes).first(cut)), name, {});
      ASSERT_FALSE(shape.has_value()) << name << ' ' << cut;
      EXPECT_EQ(shape.error().code(), ErrorCode::kCorrupt) << shape.error().to_string();
      EXPECT_NE(shape.error().message().find("cut off"), std::string::npos);
    }
  }
}

TEST(VideoGolden, VideosOneAfterAnotherAreNamed) {
  for (const std::string name : {"theora.ogv", "sound.ogv", "wmv2.wmv", "h264.flv"}) {
    auto bytes = test::golden_video(name);
    const auto second = bytes;
    bytes.insert(bytes.end(), second.begin(), second.end());
    const auto shape = probe(MemoryByteSource(bytes), name, {});
    ASSERT_FALSE(shape.has_value()) << name;
    EXPECT_EQ(shape.error().code(), ErrorCode::kUnsupported) << shape.error().to_string();
    EXPECT_NE(shape.error().message().find("one after another"), std::string::npos);
  }
}

// The demuxer takes the jump of its counters for a packet that is missing.
TEST(VideoGolden, JoinedMpegTsIsNamed) {
  auto bytes = test::golden_video("h264.ts");
  const auto second = bytes;
  bytes.insert(bytes.end(), second.begin(), second.end());
  const auto shape = probe(MemoryByteSource(bytes), "a.ts", {});
  ASSERT_FALSE(shape.has_value());
  EXPECT_NE(shape.error().message().find("several files were joined"), std::string::npos)
      << shape.error().to_string();
}

/// The names of a folder's files.
std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder + folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

/// Returns what decoding gives by time, as a check without a model does, at the time of each frame
/// or of some.
Status decoded_by_time(const ByteSource& source, const PartShape& shape, std::int64_t step_us) {
  std::vector<std::int64_t> times_us;
  for (std::int64_t at = 0; at == 0 || at < shape.duration_us; at += step_us) {
    times_us.push_back(at);
  }
  const auto ignore = [](std::size_t, std::span<const std::uint8_t>) -> Status { return {}; };
  return video_frames(source, shape, times_us, 28, 28, ignore);
}

/// Returns what decoding gives by number, as a model's recipe does: every `step`-th frame.
Status decoded_by_number(const ByteSource& source, const PartShape& shape, std::int64_t step) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = shape.frames - 1; i >= 0; i -= step) indices.insert(indices.begin(), i);
  const auto ignore = [](std::size_t, std::span<const std::uint8_t>) -> Status { return {}; };
  return exact_video_frames(source, shape, indices, ignore);
}

// A video that a check passes is delivered, and one that is delivered passes, whatever frames are
// wanted.
TEST(VideoGolden, DecodingByTimeAndByNumberAgree) {
  for (const std::string& name : files_of("golden_videos")) {
    SCOPED_TRACE(name);
    const auto bytes = test::golden_video(name);
    const MemoryByteSource source(bytes);
    const auto shape = probe(source, name, {});
    ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
    for (const std::int64_t step_us : {40'000, 500'000}) {
      const Status status = decoded_by_time(source, *shape, step_us);
      EXPECT_TRUE(status.has_value()) << status.error().to_string();
    }
    for (const std::int64_t step : {std::int64_t{1}, std::int64_t{7}, shape->frames}) {
      const Status status = decoded_by_number(source, *shape, step);
      EXPECT_TRUE(status.has_value()) << step << ' ' << status.error().to_string();
    }
  }
}

// A recording that was ended, or a file that was cut: the picture before stands for the last one.
TEST(VideoGolden, ALastPictureThatIsNotWholeIsTheOneBefore) {
  for (const std::string& name : files_of("not_whole")) {
    SCOPED_TRACE(name);
    const auto bytes = test::file_bytes(std::string(kFolder) + "not_whole/" + name);
    const auto whole_bytes = test::golden_video(name);
    const MemoryByteSource source(bytes);
    const MemoryByteSource whole_source(whole_bytes);
    const auto shape = probe(source, name, {});
    ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
    const PartShape whole_shape = probe(whole_source, name, {}).value();
    ASSERT_EQ(shape->frames, whole_shape.frames);
    std::vector<std::int64_t> indices(static_cast<std::size_t>(shape->frames));
    std::iota(indices.begin(), indices.end(), 0);
    const Frames all = frames_of(source, *shape, indices);
    const Frames whole = frames_of(whole_source, whole_shape, indices);
    ASSERT_EQ(all.size(), whole.size());
    int replaced = 0;
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (all[i] == whole[i]) continue;
      EXPECT_EQ(all[i], all[i - 1]) << i;
      EXPECT_GE(i + 4, all.size());
      ++replaced;
    }
    // MPEG-2's decoder loses the picture before, too, which it would have shown with the last one.
    EXPECT_GE(replaced, 1);
    EXPECT_LE(replaced, 2);
    for (const std::int64_t step : {std::int64_t{7}, shape->frames}) {
      const Status status = decoded_by_number(source, *shape, step);
      EXPECT_TRUE(status.has_value()) << step << ' ' << status.error().to_string();
    }
    for (const std::int64_t step_us : {10'000, 500'000}) {
      const Status status = decoded_by_time(source, *shape, step_us);
      EXPECT_TRUE(status.has_value()) << status.error().to_string();
    }
  }
}

TEST(VideoGolden, SaysThatAVideoIsEncrypted) {
  for (const std::string name : {"encrypted.mp4", "encrypted.webm"}) {
    const auto bytes = test::file_bytes(std::string(kFolder) + "refused_videos/" + name);
    const auto shape = probe(MemoryByteSource(bytes), name, {});
    ASSERT_FALSE(shape.has_value()) << name;
    EXPECT_EQ(shape.error().code(), ErrorCode::kUnsupported);
    EXPECT_NE(shape.error().message().find("its video is encrypted: decrypt it"), std::string::npos)
        << shape.error().to_string();
  }
}

TEST(VideoGolden, SaysThatFramesBecomeLarger) {
  for (const std::string name : {"larger_vp8.webm", "larger_h264.mkv"}) {
    const auto bytes = test::file_bytes(std::string(kFolder) + "refused_videos/" + name);
    const MemoryByteSource source(bytes);
    const auto shape = probe(source, name, {});
    ASSERT_TRUE(shape.has_value()) << shape.error().to_string();
    for (const Status& status :
         {decoded_by_number(source, *shape, 1), decoded_by_time(source, *shape, 40'000)}) {
      ASSERT_FALSE(status.has_value()) << name;
      EXPECT_NE(status.error().message().find("its frames become larger after 0."),
                std::string::npos)
          << status.error().to_string();
      EXPECT_NE(status.error().message().find("than the 64x48 that its container says"),
                std::string::npos)
          << status.error().to_string();
    }
  }
}

TEST(VideoGolden, AFileThatHasChangedIsCorrupt) {
  const auto bytes = test::golden_video("nine.mp4");
  const MemoryByteSource source(bytes);
  PartShape shape = probe(source, "nine.mp4", {}).value();
  const auto ignore = [](std::size_t, std::span<const std::uint8_t>) -> Status { return {}; };
  const std::vector<std::int64_t> beyond = {9};
  EXPECT_EQ(exact_video_frames(source, shape, beyond, ignore).error().code(),
            ErrorCode::kInvalidArgument);
  ++shape.frames;
  EXPECT_EQ(exact_video_frames(source, shape, beyond, ignore).error().code(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace isocost
