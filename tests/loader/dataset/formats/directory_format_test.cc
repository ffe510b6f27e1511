#include "loader/dataset/formats/directory_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_file.h"
#include "base/scratch_directory.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

fs::path golden(const char* name) {
  return fs::path(ISOCOST_SOURCE_DIR) / "tests/loader/dataset/formats/golden" / name;
}

class DirectoryFormats : public testing::Test {
 protected:
  void write(const std::string& name, std::string_view text) {
    fs::create_directories((directory_.path() / name).parent_path());
    ASSERT_TRUE(replace_file(directory_.path() / name, text));
    names_.push_back(name);
  }
  Result<DirectoryFormat> found() const { return recognise_directory(directory_.path(), names_); }
  std::string refusal() const {
    const auto format = found();
    return format ? "" : format.error().message();
  }

 private:
  ScratchDirectory directory_ = ScratchDirectory::create("formats").value();
  std::vector<std::string> names_;
};

TEST_F(DirectoryFormats, AreToldByNamedFiles) {
  EXPECT_EQ(recognise_directory(golden("mds_every"), {}).value(), DirectoryFormat::kMds);
  EXPECT_EQ(recognise_directory(golden("energon_vqa"), {}).value(), DirectoryFormat::kEnergon);
  EXPECT_EQ(found().value(), DirectoryFormat::kShards);
  write("a.tar", "");
  EXPECT_EQ(found().value(), DirectoryFormat::kShards);
  write(".nv-meta/split.yaml", "");
  EXPECT_EQ(found().value(), DirectoryFormat::kShards);
  write(".nv-meta/.info.yaml", "");
  EXPECT_EQ(found().value(), DirectoryFormat::kEnergon);
}

TEST_F(DirectoryFormats, LeaveOtherFilesOfANameAlone) {
  for (const char* text : {"", "[1]", "{}", "{\"a\": 1}", "shards", "{\"a\": {\"shards\": 1}}"}) {
    write("index.json", text);
    EXPECT_EQ(found().value(), DirectoryFormat::kShards) << text;
  }
  write("index.json", "\n{ \"version\": 2, \"shards\": []}");
  EXPECT_EQ(found().value(), DirectoryFormat::kMds);
}

TEST_F(DirectoryFormats, RefuseDataSetsOfOtherLoadersByName) {
  write("index.json", R"({"chunks": [{"filename": "chunk-0-0.bin"}], "config": {}})");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("LitData"), HasSubstr("docs/records.md")));
}

TEST_F(DirectoryFormats, RefuseLhotseSharBesideItsTars) {
  write("recording.000000.tar", "");
  write("cuts.000000.jsonl.gz", "");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("Lhotse Shar"), HasSubstr("docs/records.md")));
}

TEST_F(DirectoryFormats, RefuseTfRecordsAlone) {
  for (const char* name :
       {"a.tfrecord", "a.tfrecords", "a.tfrecord-00000-of-00008", "a.TFRecord"}) {
    EXPECT_THAT(recognise_directory("data", std::vector<std::string>{name}).error().message(),
                HasSubstr("TFRecord"))
        << name;
  }
  write("a.tfrecord", "");
  write("a.tar", "");
  EXPECT_EQ(found().value(), DirectoryFormat::kShards);
}

TEST(DirectoryFormatNames, AreAsTheSettingGivesThem) {
  EXPECT_EQ(directory_format_from_name("mds").value(), DirectoryFormat::kMds);
  EXPECT_EQ(directory_format_from_name("webdataset").value(), DirectoryFormat::kShards);
  EXPECT_EQ(directory_format_from_name("energon").value(), DirectoryFormat::kEnergon);
  EXPECT_EQ(directory_format_from_name("records").value(), DirectoryFormat::kRecords);
  EXPECT_THAT(directory_format_from_name("tar").error().message(),
              HasSubstr("webdataset, mds, energon, records"));
}

}  // namespace
}  // namespace isocost
