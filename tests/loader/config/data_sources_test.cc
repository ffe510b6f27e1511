#include "loader/config/data_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/result.h"
#include "base/scratch_directory.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

class ReadData : public testing::Test {
 protected:
  std::string write(const std::string& toml) const {
    write_file(scratch_ / "mixture.toml", toml);
    return (scratch_ / "mixture.toml").string();
  }
  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
};

TEST_F(ReadData, ATextIsOneSourceWithoutAName) {
  const NamedData named = read_data("data/*.tar", {.ignore_parts = "heic"}).value();
  EXPECT_FALSE(named.mixture.has_value());
  EXPECT_EQ(named.sources.given, "data/*.tar");
  ASSERT_EQ(named.sources.sources.size(), 1U);
  EXPECT_EQ(named.sources.sources[0].name, "");
  EXPECT_EQ(named.sources.sources[0].reading.ignore_parts, "heic");
  EXPECT_FALSE(read_data("nowhere.toml", {}).value().mixture.has_value()) << "a path that is gone";
}

TEST_F(ReadData, AMixtureHasSourcesThatMayReadOtherwise) {
  const std::string file = write(R"(
[[source]]
name = "captions"
path = ["a.tar", "b/*.tar"]
[[source]]
name = "documents"
path = "docs"
ignore_parts = "png"
weight_key = ""
media_root = "media"
)");
  const NamedData named = read_data(file, {.ignore_parts = "heic", .weight_key = "factor"}).value();
  ASSERT_TRUE(named.mixture.has_value());
  EXPECT_EQ(named.sources.given, file);
  ASSERT_EQ(named.sources.sources.size(), 2U);
  const DataSource& captions = named.sources.sources[0];
  EXPECT_EQ(captions.name, "captions");
  EXPECT_EQ(captions.data, "a.tar::b/*.tar");
  EXPECT_EQ(captions.base, scratch_.path());
  EXPECT_EQ(captions.reading.ignore_parts, "heic");
  EXPECT_EQ(captions.reading.weight_key, "factor");
  EXPECT_EQ(named.sources.sources[1].reading.ignore_parts, "png");
  EXPECT_EQ(named.sources.sources[1].reading.weight_key, "");
  EXPECT_EQ(named.sources.sources[1].reading.media_root, "media");
}

TEST_F(ReadData, ASourceMaySayItsFormatSplitAndText) {
  const std::string file = write(R"(
[[source]]
name = "a"
path = "a"
[[source]]
name = "b"
path = "b"
format = "energon"
split = "val"
text = "json[caption]"
)");
  ReadingOptions node;
  node.text = "txt";
  node.format = "webdataset";
  node.split = "train";
  const NamedData named = read_data(file, node).value();
  const ReadingOptions& a = named.sources.sources[0].reading;
  EXPECT_EQ(a.text, "txt");
  EXPECT_EQ(a.format, "webdataset");
  EXPECT_EQ(a.split, "train");
  const ReadingOptions& b = named.sources.sources[1].reading;
  EXPECT_EQ(b.text, "json[caption]");
  EXPECT_EQ(b.format, "energon");
  EXPECT_EQ(b.split, "val");
}

}  // namespace
}  // namespace isocost
