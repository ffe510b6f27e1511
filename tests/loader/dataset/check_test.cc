#include "loader/dataset/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/scratch_directory.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

using testing::HasSubstr;

class Check : public testing::Test {
 protected:
  Result<CheckReport> check(const std::vector<TarFile>& files) {
    write_file(scratch_ / "shard-0.tar", make_tar(files));
    return check_dataset(DataSources::of_text(scratch_.path(), {}), options_);
  }
  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  CheckOptions options_;
};

TEST_F(Check, AGoodDatasetHasNoBadSample) {
  std::vector<TarFile> files;
  std::uint64_t bytes = 0;
  for (int i = 0; i < 50; ++i) {
    const std::string key = std::to_string(i);
    files.push_back({key + ".png", tiny_png(20, 30)});
    files.push_back({key + ".txt", "words"});
    files.push_back({key + ".wav", tiny_wav(1600)});
    for (std::size_t back = 1; back <= 3; ++back) bytes += files[files.size() - back].bytes.size();
  }
  std::uint64_t last = 0;
  options_.dataset.progress = [&](std::uint64_t done, std::uint64_t, std::string_view what) {
    if (what == "decoding samples") last = done;
  };
  const auto report = check(files);
  ASSERT_TRUE(report.has_value()) << report.error().message();
  EXPECT_TRUE(report->bad.empty());
  EXPECT_EQ(report->findings.shards, 1U);
  EXPECT_EQ(report->samples, 50U);
  EXPECT_EQ(report->parts, 150U);
  EXPECT_EQ(report->bytes, bytes);
  EXPECT_EQ(last, 50U);
}

TEST_F(Check, FindsWhatOnlyDecodingShowsAndEveryBadPart) {
  std::string broken = tiny_png(64, 64);
  broken.replace(45, 12, 12, '\x5A');  // within the pixels: the header stays good
  const auto report = check({{"a.png", tiny_png(8, 8)},
                             {"b.0.png", broken},
                             {"b.1.png", tiny_png(8, 8)},
                             {"b.2.png", broken},
                             {"c.txt", "good"},
                             {"d.png", "no picture"}});
  ASSERT_TRUE(report.has_value()) << report.error().message();
  EXPECT_EQ(report->samples, 2U);
  EXPECT_EQ(report->parts, 2U);
  ASSERT_EQ(report->bad.size(), 3U);
  EXPECT_EQ(report->bad[0].key, "d") << "what indexing found comes first";
  EXPECT_EQ(report->bad[1].key, "b");
  EXPECT_EQ(report->bad[1].part, "0.png");
  EXPECT_EQ(report->bad[2].part, "2.png");
  for (const BadSample& bad : report->bad) {
    EXPECT_EQ(bad.shard, "shard-0.tar");
    EXPECT_NE(bad.reason, "");
  }
}

TEST_F(Check, APartBeyondTheMemoryIsNamedWithWhatItNeeds) {
  options_.decode.memory = 1 * kMiB;
  const auto report =
      check({{"a.txt", "small"}, {"b.png", tiny_png(4000, 4000)}, {"b.txt", "its caption"}});
  ASSERT_TRUE(report.has_value()) << report.error().message();
  ASSERT_EQ(report->bad.size(), 1U) << "with its caption it is too large, too";
  EXPECT_EQ(report->bad[0].part, "png");
  EXPECT_THAT(report->bad[0].reason, HasSubstr("raise memory"));
}

TEST_F(Check, StopsWhenAsked) {
  std::stop_source stop;
  options_.stop = stop.get_token();
  std::uint64_t last = 0;
  options_.dataset.progress = [&](std::uint64_t done, std::uint64_t, std::string_view what) {
    if (what != "decoding samples") return;
    last = done;
    stop.request_stop();
  };
  const auto report = check({{"a.txt", "x"}, {"b.txt", "x"}, {"c.txt", "x"}});
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(last, 1U);
}

TEST_F(Check, AShardThatChangesMeanwhileIsAnErrorAndNoBadSample) {
  options_.dataset.progress = [&](std::uint64_t, std::uint64_t, std::string_view what) {
    if (what == "decoding samples") return;
    std::filesystem::last_write_time(scratch_ / "shard-0.tar", {});
  };
  const auto report = check({{"a.txt", "x"}, {"b.txt", "x"}});
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(report.error().message(), HasSubstr("shard-0.tar: has changed"));
}

// A byte between the blocks that an index knows, in samples that decode as well as before.
TEST_F(Check, FindsAByteThatChangedAtTheSameSizeAndTime) {
  const std::vector<TarFile> files = {{"a.wav", tiny_wav(400'000)}};
  const auto first = check(files);
  ASSERT_TRUE(first.has_value()) << first.error().message();
  EXPECT_TRUE(first->bad.empty());
  const auto shard = scratch_ / "shard-0.tar";
  const auto time = std::filesystem::last_write_time(shard);
  std::string tar = make_tar(files);
  tar[tar.size() / 2] ^= 1;
  write_file(shard, tar);
  std::filesystem::last_write_time(shard, time);
  for (int again = 0; again < 2; ++again) {
    const auto report = check_dataset(DataSources::of_text(scratch_.path(), {}), options_);
    ASSERT_TRUE(report.has_value()) << report.error().message();
    ASSERT_EQ(report->bad.size(), 1U);
    EXPECT_EQ(report->bad[0].shard, "shard-0.tar");
    EXPECT_EQ(report->bad[0].key, "");
    EXPECT_THAT(report->bad[0].reason, HasSubstr("not those of the last check"));
    EXPECT_EQ(report->samples, 1U);
  }
  std::filesystem::last_write_time(shard, time + std::chrono::seconds(1));
  const auto accepted = check_dataset(DataSources::of_text(scratch_.path(), {}), options_);
  ASSERT_TRUE(accepted.has_value()) << accepted.error().message();
  EXPECT_TRUE(accepted->bad.empty());
}

TEST_F(Check, AMissingProgramEndsItBeforeAPictureThatNeedsOneComes) {
  std::ifstream file(std::filesystem::path(ISOCOST_SOURCE_DIR) / "tests/decode/golden/rgb.tif",
                     std::ios::binary);
  const std::string picture{std::istreambuf_iterator<char>(file), {}};
  options_.decode.decode_program = "/nonexistent/isocost";
  options_.decode.io_timeout = std::chrono::hours(1);
  const auto refused = check({{"a.png", tiny_png(8, 8)}, {"b.tif", picture}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr("TIFF is decoded by the program isocost alone"),
                    HasSubstr("decode_program"), HasSubstr("/nonexistent/isocost")));
  EXPECT_TRUE(check({{"a.png", tiny_png(8, 8)}}).has_value());
}

TEST_F(Check, NeedsShards) {
  EXPECT_EQ(check_dataset(DataSources::of_text(scratch_.path(), {}), options_).error().code(),
            ErrorCode::kNotFound);
}

}  // namespace
}  // namespace isocost
