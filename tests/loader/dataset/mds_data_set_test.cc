// MDS data sets that Mosaic Streaming's writer made (formats/golden/make.py), opened as data sets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base64.h"
#include "base/byte_source.h"
#include "base/output_file.h"
#include "base/read_file.h"
#include "base/scratch_directory.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/records/internal/json_value.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

fs::path golden() { return fs::path(ISOCOST_SOURCE_DIR) / "tests/loader/dataset/formats/golden"; }

std::string text_of(const fs::path& file) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  return read_file("file", file, kMostBytes).value();
}

void write(const fs::path& file, std::string_view text) { ASSERT_TRUE(replace_file(file, text)); }

std::string all_of(const ByteSource& source) {
  std::string bytes(static_cast<std::size_t>(source.size()), '\0');
  bytes.resize(source.read_at(0, std::as_writable_bytes(std::span(bytes))).value());
  return bytes;
}

class MdsDataSet : public testing::Test {
 protected:
  // A copy of a golden, since its indexes would lie beside it.
  fs::path copy(const std::string& name) {
    fs::copy(golden() / ("mds_" + name), scratch_ / name);
    return scratch_ / name;
  }
  std::unique_ptr<Dataset> open(const fs::path& directory) {
    log_.clear();
    options_.log = [this](LogLevel, std::string_view text) { log_.emplace_back(text); };
    return Dataset::open(directory.string(), options_).value();
  }
  static std::vector<std::string> parts_of(const Dataset& dataset, SampleId id) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < dataset.shape(id).parts.size(); ++i) {
      parts.emplace_back(dataset.part_name(id, i));
    }
    return parts;
  }
  static ordered_json json_of(const Dataset& dataset, SampleId id) {
    return parse_json_value(all_of(*dataset.open_json(id).value()), 64).value();
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  DatasetOptions options_;
  std::vector<std::string> log_;
};

TEST_F(MdsDataSet, HasTheSamplesOfTheWritersOwnReader) {
  const fs::path directory = copy("every");
  const ordered_json theirs = parse_json_value(text_of(golden() / "mds_every.json"), 64).value();
  for (int start = 0; start < 2; ++start) {  // the second one reads the indexes
    const auto dataset = open(directory);
    ASSERT_EQ(dataset->size(), theirs.size());
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      const SampleId id = static_cast<SampleId>(i);
      const ordered_json& sample = theirs[i].at("sample");
      EXPECT_EQ(dataset->shard(id), theirs[i].at("shard").get<std::string>());
      EXPECT_EQ(dataset->key(id), std::to_string(theirs[i].at("number").get<int>()));
      const std::vector<std::string> parts = parts_of(*dataset, id);
      const std::string image =
          std::vector<std::string>{"image.jpg", "image.png", "image.webp"}[i % 3];
      EXPECT_THAT(parts, ElementsAre("drawing.png", image, "photo.jpg", "text", "txt"));
      for (std::size_t part = 0; part < 3; ++part) {
        const std::string column = parts[part].substr(0, parts[part].find('.'));
        EXPECT_EQ(encode_base64(all_of(*dataset->open_part(id, part).value())),
                  sample.at(column).at("bytes").get<std::string>())
            << parts[part];
      }
      EXPECT_EQ(all_of(*dataset->open_part(id, 3).value()), sample.at("text").get<std::string>());
      EXPECT_EQ(all_of(*dataset->open_part(id, 4).value()), sample.at("txt").get<std::string>());
      const ordered_json json = json_of(*dataset, id);
      EXPECT_EQ(json.at("u64"), sample.at("u64"));
      EXPECT_EQ(json.at("meta"), sample.at("meta"));
    }
  }
}

TEST_F(MdsDataSet, ReadsCompressedShards) {
  for (const char* name : {"zstd", "gz"}) {
    const auto dataset = open(copy(name));
    ASSERT_EQ(dataset->size(), 4U) << name;
    EXPECT_THAT(parts_of(*dataset, SampleId{0}), ElementsAre("jpg", "json"));
    EXPECT_EQ(json_of(*dataset, SampleId{0}).at("text"), "caption 0");
    EXPECT_EQ(json_of(*dataset, SampleId{0}).at("id"), 0);
    // The part of the text that a model sees is made of the sample's values.
    EXPECT_EQ(all_of(*dataset->open_part(SampleId{0}, 1).value()),
              all_of(*dataset->open_json(SampleId{0}).value()));
    EXPECT_THAT(parts_of(*dataset, SampleId{1}), ElementsAre("jpg"));
  }
}

TEST_F(MdsDataSet, MayHoldTextAlone) {
  const auto dataset = open(copy("texts"));
  ASSERT_EQ(dataset->size(), 3U);
  EXPECT_EQ(all_of(*dataset->open_part(SampleId{2}, 0).value()), "zwei \u2713");
}

TEST_F(MdsDataSet, AShardOfAnotherSizeOrHashIsLost) {
  const fs::path directory = copy("zstd");
  std::string bytes = text_of(directory / "shard.00000.mds.zstd");
  write(directory / "shard.00000.mds.zstd", bytes + "x");
  auto dataset = open(directory);
  ASSERT_EQ(dataset->findings().broken.size(), 1U);
  EXPECT_TRUE(dataset->findings().broken[0].lost);
  EXPECT_THAT(dataset->findings().broken[0].reason,
              AllOf(HasSubstr("bytes, and its index says"), HasSubstr("copy the shard again")));
  fs::remove(directory / "shard.00000.mds.zstd");
  dataset = open(directory);
  ASSERT_EQ(dataset->findings().broken.size(), 1U);
  EXPECT_EQ(dataset->findings().broken[0].name, "shard.00000.mds.zstd");

  const fs::path plain = copy("every");
  bytes = text_of(plain / "shard.00001.mds");
  bytes.back() ^= 1;
  write(plain / "shard.00001.mds", bytes);
  dataset = open(plain);
  ASSERT_EQ(dataset->findings().broken.size(), 1U);
  EXPECT_THAT(dataset->findings().broken[0].reason, HasSubstr("its md5 is"));
}

TEST_F(MdsDataSet, IsIndexedAgainIfItsIndexStatesSomethingElse) {
  const fs::path directory = copy("texts");
  EXPECT_TRUE(open(directory)->findings().broken.empty());
  std::string index = text_of(directory / "index.json");
  index.replace(index.find("\"samples\": 3"), 12, "\"samples\": 2");
  write(directory / "index.json", index);
  const auto dataset = open(directory);
  ASSERT_EQ(dataset->findings().broken.size(), 1U);
  EXPECT_THAT(dataset->findings().broken[0].reason, HasSubstr("3 samples, and its index 2"));
}

TEST_F(MdsDataSet, AnIndexThatIsNotReadIsRefusedWithItsFile) {
  const fs::path directory = copy("texts");
  std::string index = text_of(directory / "index.json");
  index.replace(index.find("[\"str\"]"), 7, "[\"pkl\"]");
  write(directory / "index.json", index);
  const auto dataset = Dataset::open(directory.string(), options_);
  ASSERT_FALSE(dataset);
  EXPECT_THAT(dataset.error().message(),
              AllOf(HasSubstr("index.json: shard 1 of the index: the column 'text'"),
                    HasSubstr("runs code")));
}

TEST_F(MdsDataSet, OtherCompressionsAreRefusedUnlessTheRawFileIsThere) {
  const fs::path directory = copy("gz");
  std::string index = text_of(directory / "index.json");
  for (std::size_t at; (at = index.find("\"gz\"")) != std::string::npos;)
    index.replace(at, 4, "\"br\"");
  write(directory / "index.json", index);
  EXPECT_THAT(Dataset::open(directory.string(), options_).error().message(),
              AllOf(HasSubstr("the compression 'br' is not read"), HasSubstr("shard.00000.mds")));
}

}  // namespace
}  // namespace isocost
