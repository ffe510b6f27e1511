#include "loader/dataset/catalogue/shard_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/scratch_directory.h"
#include "loader/dataset/formats/directory_format.h"
#include "loader/dataset/formats/tar_choice.h"
#include "tests/loader/dataset/made_shards.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::EndsWith;
using testing::StartsWith;

std::vector<std::string> names_of(const ShardListing& listing) {
  std::vector<std::string> names;
  for (const ShardPlace& shard : listing.shards) names.push_back(shard.name);
  return names;
}

TEST(ShardListing, TellsShardsFromLostOnes) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const fs::path directory = scratch / "data";
  for (const char* name : {"b.tar", "a.tgz", "notes.txt", ".c.tar"}) {
    write_file(directory / name, "x");
  }
  fs::create_directory(directory / "e.tar");
  fs::create_symlink("nowhere", directory / "d.tar.gz");
  const ShardListing listing = list_shards(directory.string(), {}).value();
  EXPECT_THAT(names_of(listing), ElementsAre("a.tgz", "b.tar"));
  ASSERT_EQ(listing.lost.size(), 2U);
  EXPECT_EQ(listing.lost[0].name, "d.tar.gz");
  EXPECT_TRUE(listing.lost[0].lost);
  EXPECT_THAT(listing.lost[0].reason, StartsWith("a broken link"));
  EXPECT_EQ(listing.lost[1].name, "e.tar");
}

TEST(ShardListing, NamesDirectoriesOfOtherLoaders) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const auto error = [&](const char* name) {
    return list_shards((scratch / name).string(), {}).error().message();
  };
  write_file(scratch / "lit/index.json", R"({"chunks": [], "config": {}})");
  EXPECT_THAT(error("lit"), testing::HasSubstr("LitData"));
  write_file(scratch / "shar/cuts.000000.jsonl.gz", "x");
  write_file(scratch / "shar/recording.000000.tar", "x");
  EXPECT_THAT(error("shar"), testing::HasSubstr("Lhotse Shar"));
  write_file(scratch / "records/a.tfrecord", "x");
  EXPECT_THAT(error("records"), testing::HasSubstr("TFRecord"));
}

DirectoryReading directories(const std::string& split, const std::string& format) {
  ReadingOptions options;
  options.split = split;
  options.format = format;
  return DirectoryReading::create(options).value();
}

class EnergonListing : public testing::Test {
 protected:
  EnergonListing() {
    for (const char* name : {"a.tar", "b/0.tar", "b/1.tar", "c.tar"}) write(name, "x");
    write(".nv-meta/.info.json",
          R"({"shard_counts": {"a.tar": 1, "b/0.tar": 2, "b/1.tar": 3, "c.tar": 4}})");
    write(".nv-meta/split.yaml",
          "split_parts: {train: ['b/{0..1}.tar', a.tar], val: [c.tar]}\nexclude: [b/1.tar/x]\n");
    write(".nv-meta/dataset.yaml",
          "__module__: megatron.energon\n__class__: CrudeWebdataset\nsubflavors: {a: 1}\n");
  }
  void write(const std::string& name, const std::string& text) {
    write_file(scratch_ / "data" / name, text);
  }
  Result<ShardListing> list(const std::string& split = "", const std::string& format = "") {
    return list_shards((scratch_ / "data").string(), {}, {}, {}, directories(split, format));
  }
  std::string error(const std::string& split = "", const std::string& format = "") {
    const auto listing = list(split, format);
    return listing ? "" : listing.error().message();
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
};

TEST_F(EnergonListing, HasTheShardsOfASplitInItsOrder) {
  const ShardListing train = list().value();
  EXPECT_THAT(names_of(train), ElementsAre("b/0.tar", "b/1.tar", "a.tar"));
  EXPECT_THAT(train.shards[1].tar->excluded, ElementsAre("x"));
  EXPECT_EQ(train.shards[1].tar->samples, 3);
  EXPECT_EQ(train.shards[1].tar->fields, nullptr);
  EXPECT_THAT(train.notes, ElementsAre(testing::AllOf(
                               testing::HasSubstr("of 4 shards, the 3 of the split 'train'"),
                               testing::HasSubstr("format = \"webdataset\""))));
  EXPECT_THAT(names_of(list("val").value()), ElementsAre("c.tar"));
  EXPECT_THAT(error("test"), testing::HasSubstr("train, val"));
}

TEST_F(EnergonListing, AFormatOverridesWhatTheFilesSay) {
  const ShardListing tars = list("", "webdataset").value();
  EXPECT_THAT(names_of(tars), ElementsAre("a.tar", "c.tar"));
  EXPECT_EQ(tars.shards[0].tar, nullptr);
  EXPECT_THAT(list("", "energon").value().notes, testing::IsEmpty());
  EXPECT_THAT(error("", "mds"), testing::HasSubstr("index.json"));
  EXPECT_THAT(error("train", "webdataset"), testing::HasSubstr("it has no splits"));
  EXPECT_THAT(list_shards((scratch_ / "data/a.tar").string(), {}, {}, {}, directories("train", ""))
                  .error()
                  .message(),
              testing::HasSubstr("is a file"));
}

TEST_F(EnergonListing, AShardThatIsGoneIsLostIfTheSplitNamesIt) {
  fs::remove(scratch_ / "data/a.tar");
  fs::remove(scratch_ / "data/c.tar");
  write(".isocost/c.tar.idx", "x");
  const ShardListing listing = list().value();
  ASSERT_EQ(listing.lost.size(), 1U);
  EXPECT_EQ(listing.lost[0].name, "a.tar");
}

TEST_F(EnergonListing, FilesThatLackOrAreWrongAreNamed) {
  write(".nv-meta/dataset.yaml", "sample_type: {__module__: mine, __class__: Mine}\n");
  EXPECT_THAT(error(), testing::AllOf(testing::HasSubstr("dataset.yaml"),
                                      testing::HasSubstr("'mine.Mine' is code")));
  fs::remove(scratch_ / "data/.nv-meta/dataset.yaml");
  EXPECT_THAT(error(), testing::AllOf(testing::HasSubstr("dataset.yaml: it is not there"),
                                      testing::HasSubstr("energon prepare"),
                                      testing::HasSubstr("format = \"webdataset\"")));
  write(".nv-meta/.info.json", "{");
  EXPECT_THAT(error(), testing::HasSubstr(".info.json"));
}

TEST(MdsListing, NamesTheSplitsOfADirectory) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const fs::path golden = fs::path(ISOCOST_SOURCE_DIR) / "tests/loader/dataset/formats/golden";
  fs::create_directories(scratch / "data");
  fs::copy(golden / "mds_texts", scratch / "data/train");
  fs::copy(golden / "mds_empty", scratch / "data/val");
  const auto list = [&](const std::string& split, const std::string& format = "") {
    return list_shards((scratch / "data").string(), {}, {}, {}, directories(split, format));
  };
  EXPECT_THAT(names_of(list("train").value()), ElementsAre("train/shard.00000.mds"));
  EXPECT_THAT(names_of(list("train", "mds").value()), ElementsAre("train/shard.00000.mds"));
  for (const char* split : {"", "test", "../data/train", ".."}) {
    EXPECT_THAT(list(split).error().message(), testing::HasSubstr("train, val")) << split;
  }
  EXPECT_THAT(list("", "mds").error().message(), testing::HasSubstr("train, val"));
  EXPECT_THAT(list("val").error().message(), testing::HasSubstr("is empty"));
}

TEST(ShardListing, ADirectoryOfLostShardsIsNotEmpty) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  fs::create_directories(scratch / "data" / "a.tar");
  const ShardListing listing = list_shards((scratch / "data").string(), {}).value();
  EXPECT_TRUE(listing.shards.empty());
  EXPECT_EQ(listing.lost.size(), 1U);
}

TEST(ShardListing, NamesArchivesAndDirectoriesThatAreNotRead) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const fs::path directory = scratch / "data";
  for (const char* name : {"a.tar", "b.tar.xz", "c.zip", "d.tar.part", "train/en/0.tar",
                           "pictures/0.jpg", ".hidden/0.tar", "a.tar.md5", ".isocost/0.tar.xz"}) {
    write_file(directory / name, "x");
  }
  const ShardListing listing = list_shards(directory.string(), {}).value();
  EXPECT_THAT(names_of(listing), ElementsAre("a.tar"));
  EXPECT_TRUE(listing.lost.empty());
  EXPECT_THAT(listing.unread,
              ElementsAre(StartsWith("b.tar.xz: an archive of a format that is not read; pack"),
                          StartsWith("c.zip: an archive"),
                          StartsWith("d.tar.part: a shard whose download was not completed"),
                          StartsWith("train: a directory that holds shards (0.tar)")));
  fs::remove(directory / "a.tar");
  EXPECT_THAT(list_shards(directory.string(), {}).error().message(),
              testing::HasSubstr("in it; there is b.tar.xz: an archive of a format that is not "
                                 "read"));
}

TEST(ShardListing, AShardThatIsAbsentWhileItsIndexIsThereIsLost) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const fs::path indexes =
      shard_root(scratch / "data", scratch / "indexes")->index_directories.front();
  IndexContents contents = contents_of({"a", "b"});
  contents.archive.samples_when_whole = 2;
  const auto write_index = [&](const std::string& name) {
    const std::vector<std::byte> bytes = encode_index(contents);
    write_file(indexes / name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  write_index("gone.tar.idx");
  write_file(indexes / "old.tar.idx", "the index of an earlier version");
  write_file(indexes / "here.tar.idx", "");
  write_file(indexes / "gone.tar.tokens", "");
  write_file(scratch / "data/here.tar", "x");
  contents = {};
  contents.archive.condition = ShardCondition::kLost;  // it was empty, and was removed
  write_index("removed.tar.idx");
  const auto listed = [&] {
    return list_shards((scratch / "data").string(), scratch / "indexes").value();
  };
  const ShardListing listing = listed();
  ASSERT_EQ(listing.lost.size(), 2U);
  EXPECT_EQ(listing.lost[0].name, "gone.tar");
  EXPECT_TRUE(listing.lost[0].lost);
  EXPECT_EQ(listing.lost[0].samples_when_whole, 2U);
  EXPECT_EQ(listing.lost[0].reason,
            "it is absent, while its index is there; put it back, or delete " +
                (indexes / "gone.tar.idx").string() + " if it was meant to go");
  EXPECT_EQ(listing.lost[1].name, "old.tar");
  fs::create_symlink("nowhere", scratch / "data/gone.tar");
  EXPECT_EQ(listed().lost[0].samples_when_whole, 2U) << "a broken link had samples, too";
  fs::remove(scratch / "data/gone.tar");
  fs::remove(scratch / "data/here.tar");
  EXPECT_EQ(listed().lost.size(), 3U);
}

class NamedShards : public testing::Test {
 protected:
  NamedShards() {
    for (const char* name : {"en/0.tar", "en/1.tar", "fr/0.tar"}) write_file(scratch_ / name, "x");
  }
  ShardListing listed(const std::string& text) const {
    auto listing = list_shards((scratch_ / text).string(), {});
    EXPECT_TRUE(listing.has_value()) << listing.error().to_string();
    return listing ? *std::move(listing) : ShardListing();
  }
  std::string refusal(const std::string& text) const {
    const auto listing = list_shards((scratch_ / text).string(), {});
    return listing ? "" : listing.error().message();
  }
  // Writes the index of a shard that was whole.
  void write_index(const std::string& file) const {
    IndexContents contents = contents_of({"a", "b"});
    contents.archive.samples_when_whole = 2;
    const std::vector<std::byte> bytes = encode_index(contents);
    write_file(scratch_ / file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
};

TEST_F(NamedShards, AreCalledByTheirPathsFromTheRoot) {
  EXPECT_THAT(names_of(listed("{en,fr}/0.tar")), ElementsAre("en/0.tar", "fr/0.tar"));
  EXPECT_THAT(names_of(listed("*/*.tar")), ElementsAre("en/0.tar", "en/1.tar", "fr/0.tar"));
  EXPECT_EQ(fs::weakly_canonical(listed("fr/0.tar").shards.at(0).path()),
            fs::weakly_canonical(scratch_ / "fr/0.tar"));
}

TEST_F(NamedShards, OfOneNameAreRefusedWithBoth) {
  const std::string message = refusal("en/0.tar::" + (scratch_ / "fr/0.tar").string());
  EXPECT_THAT(message, testing::HasSubstr("en/0.tar and "));
  EXPECT_THAT(message, testing::HasSubstr("fr/0.tar would both be called 0.tar; name them by one"));
  EXPECT_THAT(refusal("en::" + (scratch_ / "{en,fr}").string()),
              testing::HasSubstr("en/0.tar is named twice"))
      << "by another name";
  EXPECT_THAT(refusal("en/0.tar::" + (scratch_ / "en").string()),
              testing::HasSubstr("en/0.tar is named twice"));
  EXPECT_THAT(refusal("{en,en}/0.tar"), testing::HasSubstr("is named twice"));
}

TEST_F(NamedShards, ThatAreNamedAndAbsentAreLost) {
  write_index("en/.isocost/2.tar.idx");
  const ShardListing listing = listed("en/{0..3}.tar");
  EXPECT_THAT(names_of(listing), ElementsAre("0.tar", "1.tar"));
  ASSERT_EQ(listing.lost.size(), 2U);
  EXPECT_EQ(listing.lost[0].name, "2.tar");
  EXPECT_EQ(listing.lost[0].samples_when_whole, 2U);
  EXPECT_THAT(listing.lost[0].reason, StartsWith("it is absent"));
  EXPECT_EQ(listing.lost[1].name, "3.tar");
}

// The neighbours' indexes are those of another data set in the same directory.
TEST_F(NamedShards, AnIndexCountsOnlyWhereThePatternMeansItsShard) {
  write_index(".isocost/en/9.tar.idx");
  write_index(".isocost/de/9.tar.idx");
  EXPECT_TRUE(listed("{en,fr}/0.tar").lost.empty());
  const ShardListing listing = listed("{en,fr}/*.tar");
  ASSERT_EQ(listing.lost.size(), 1U);
  EXPECT_EQ(listing.lost[0].name, "en/9.tar");
  EXPECT_EQ(listed("**/*.tar").lost.size(), 2U);
  EXPECT_TRUE(listed("en").lost.empty()) << "it has indexes of its own";
}

TEST_F(NamedShards, AnEmptyPatternSaysWhatLiesThere) {
  const std::string message = refusal("en/*.tgz");
  EXPECT_THAT(message, testing::HasSubstr("en/*.tgz: no shard (*.tar, "));
  EXPECT_THAT(message, EndsWith("there are 0.tar, 1.tar"));
  write_file(scratch_ / "en/2.tar.xz", "x");
  EXPECT_THAT(refusal("en/*.xz"), testing::HasSubstr("there is 2.tar.xz: an archive of a format"));
  EXPECT_THAT(refusal("*.tar"), testing::HasSubstr("shards lie below it: '"));
}

// Half of a data set is easily missed.
TEST_F(NamedShards, EachWordOfBracesHasShards) {
  fs::create_directory(scratch_ / "de");
  EXPECT_THAT(refusal("{en,de}/*.tar"), testing::HasSubstr("de/*.tar: no shard ("));
  EXPECT_THAT(refusal("{en,xx}/*.tar"), testing::HasSubstr("xx/*.tar: no shard ("));
  EXPECT_THAT(refusal("{en,de}"), testing::HasSubstr(": de: no shards ("));
  write_index(".isocost/de/9.tar.idx");
  EXPECT_EQ(listed("{en,de}/*.tar").lost.size(), 1U) << "all that it had is lost";
}

TEST_F(NamedShards, ADirectoryInBracesIsReadAsADirectoryIs) {
  write_file(scratch_ / "fr/old/0.tar", "x");
  fs::create_directory(scratch_ / "fr/9.tar");
  const ShardListing listing = listed("{en,fr}");
  EXPECT_THAT(listing.unread, ElementsAre(StartsWith("fr/old: a directory that holds shards")));
  ASSERT_EQ(listing.lost.size(), 1U);
  EXPECT_EQ(listing.lost[0].name, "fr/9.tar");
  EXPECT_EQ(listed("fr/*.tar").lost.size(), 1U);
}

// A link to a directory is followed by "*", and not by "**".
TEST_F(NamedShards, AShardBehindALinkIsNotAbsent) {
  fs::create_directory_symlink("en", scratch_ / "link");
  write_index(".isocost/link/0.tar.idx");
  EXPECT_TRUE(listed("**/*.tar").lost.empty());
  EXPECT_THAT(names_of(listed("*/1.tar")), ElementsAre("en/1.tar", "link/1.tar"));
}

TEST_F(NamedShards, AShardThatMayNotBeLookedAtIsNotLost) {
  constexpr uid_t kNobody = 65534;
  const bool is_root = geteuid() == 0;  // who may look at everything
  fs::permissions(scratch_.path(), fs::perms{0755});
  fs::permissions(scratch_ / "fr", fs::perms::none);
  if (is_root) {
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  const auto listing = list_shards((scratch_ / "fr/0.tar").string(), {});
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  fs::permissions(scratch_ / "fr", fs::perms::owner_all);
  ASSERT_FALSE(listing.has_value());
  EXPECT_EQ(listing.error().code(), ErrorCode::kIo);
}

TEST(ShardListing, SaysWhatToGiveInstead) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const auto nowhere = list_shards((scratch / "nowhere").string(), {});
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(nowhere.error().message(), EndsWith("nowhere: no such file or directory; " +
                                                  scratch.path().string() + " is empty"));
  fs::create_directory(scratch / "empty");
  const auto empty = list_shards((scratch / "empty").string(), {});
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(empty.error().message(), EndsWith("empty: no shards (*.tar, *.tar.gz, *.tgz, "
                                                "*.tar.zst, *.tzst) in it; 'isocost make-shards' "
                                                "writes them"));
}

}  // namespace
}  // namespace isocost
