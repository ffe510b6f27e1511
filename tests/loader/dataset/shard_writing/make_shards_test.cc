#include "loader/dataset/shard_writing/make_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/scratch_directory.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/formats/tar_listing.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Members = std::vector<std::pair<std::string, std::string>>;

// Names and bodies of a shard, in order.
Members members_of(const std::filesystem::path& shard) {
  const std::string bytes = read_file(shard);
  const MemoryByteSource source(std::as_bytes(std::span(bytes)));
  auto listing = TarListing::open(source);
  EXPECT_TRUE(listing.has_value());
  Members members;
  while (const auto member = listing->next()) {
    EXPECT_EQ(member->problem, "");
    members.emplace_back(member->name, bytes.substr(static_cast<std::size_t>(member->offset),
                                                    static_cast<std::size_t>(member->size)));
  }
  EXPECT_EQ(listing->end().problem, "");
  return members;
}

std::vector<std::string> files_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class MakeShards : public testing::Test {
 protected:
  std::filesystem::path manifest(std::string_view lines) {
    write_file(scratch_ / "manifest.jsonl", lines);
    return scratch_ / "manifest.jsonl";
  }
  std::filesystem::path out() const { return scratch_ / "out"; }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  MakeShardsOptions options_;
};

TEST_F(MakeShards, WritesAManifestInItsOrder) {
  std::filesystem::create_directory(scratch_ / "media");
  write_file(scratch_ / "media/x.png", tiny_png(7, 5));
  const std::string long_name(180, 'n');
  const auto source = manifest(
      R"({"key": "b/zwei", "parts": [{"name": "txt", "text": "Grüße"},)"
      R"( {"name": "png", "file": "media/x.png"}, {"name": "json", "json": {"weight": 0.5}}]})"
      "\n\n"
      R"({"key": "Bär", "parts": [{"name": "0.txt", "text": "y"}]})"
      "\n"
      R"({"key": ")" +
      long_name + R"(/last", "parts": [{"name": "txt", "text": "x"}]})");
  std::vector<std::uint64_t> done;
  options_.progress = [&](std::uint64_t at, std::uint64_t total, std::string_view) {
    EXPECT_LE(at, total + 1);
    done.push_back(at);
  };
  const auto made = make_shards(source, out(), options_);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(made->shards, 1U);
  EXPECT_EQ(made->samples, 3U);
  EXPECT_EQ(done.size(), 3U);
  EXPECT_THAT(files_in(out()), ElementsAre("shard-000000.tar"));
  EXPECT_EQ(members_of(out() / "shard-000000.tar"), (Members{{"b/zwei.txt", "Grüße"},
                                                             {"b/zwei.png", tiny_png(7, 5)},
                                                             {"b/zwei.json", R"({"weight":0.5})"},
                                                             {"Bär.0.txt", "y"},
                                                             {long_name + "/last.txt", "x"}}));
}

TEST_F(MakeShards, GroupsADirectoryTree) {
  const auto tree = scratch_ / "tree";
  std::filesystem::create_directories(tree / "a");
  std::filesystem::create_directories(tree / ".cache");
  write_file(tree / "b.txt", "b");
  write_file(tree / "a/x.1.txt", "one");
  write_file(tree / "a/x.0.png", tiny_png(1, 1));
  write_file(tree / "README", "left out");
  write_file(tree / ".cache/y.txt", "left out");
  std::vector<std::string> said;
  options_.log = [&](LogLevel, std::string_view text) { said.emplace_back(text); };
  ASSERT_TRUE(make_shards(tree, out(), options_).has_value());
  EXPECT_EQ(members_of(out() / "shard-000000.tar"),
            (Members{{"a/x.0.png", tiny_png(1, 1)}, {"a/x.1.txt", "one"}, {"b.txt", "b"}}));
  EXPECT_THAT(said, ElementsAre(HasSubstr("1 file without an extension")));
}

std::string text_lines(int samples, std::size_t bytes) {
  std::string lines;
  for (int i = 0; i < samples; ++i) {
    lines += R"({"key": "s)" + std::to_string(i) + R"(", "parts": [{"name": "txt", "text": ")" +
             std::string(bytes, 'x') + "\"}]}\n";
  }
  return lines;
}

TEST_F(MakeShards, SplitsBySamplesAndBytesAndGivesEqualBytes) {
  const auto source = manifest(text_lines(10, 1000));
  options_.samples_per_shard = 4;
  auto made = make_shards(source, out(), options_);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->shards, 3U);
  EXPECT_EQ(made->bytes, 10'000U);
  EXPECT_EQ(members_of(out() / "shard-000000.tar").size(), 4U);
  EXPECT_EQ(members_of(out() / "shard-000002.tar").size(), 2U);

  ASSERT_TRUE(make_shards(source, scratch_ / "again", options_).has_value());
  for (const std::string& name : files_in(out())) {
    EXPECT_EQ(read_file(out() / name), read_file(scratch_ / "again" / name));
  }

  options_.bytes_per_shard = std::int64_t{5} * (512 + 1024);
  options_.samples_per_shard = 1000;
  made = make_shards(source, scratch_ / "bytes", options_);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->shards, 2U);
  EXPECT_EQ(members_of(scratch_ / "bytes" / "shard-000000.tar").size(), 5U);
}

TEST_F(MakeShards, GzipGivesEqualBytesToo) {
  const auto source = manifest(text_lines(3, 100));
  options_.gzip = true;
  ASSERT_TRUE(make_shards(source, out(), options_).has_value());
  ASSERT_TRUE(make_shards(source, scratch_ / "again", options_).has_value());
  const std::string bytes = read_file(out() / "shard-000000.tar.gz");
  EXPECT_EQ(bytes, read_file(scratch_ / "again/shard-000000.tar.gz"));
  EXPECT_EQ(bytes.substr(0, 2), "\x1F\x8B");
  EXPECT_EQ(bytes.substr(4, 4), std::string(4, '\0')) << "gzip's time of writing";
}

TEST_F(MakeShards, KeepsOtherShardsUnlessForced) {
  const auto source = manifest(text_lines(2, 10));
  options_.samples_per_shard = 1;
  ASSERT_TRUE(make_shards(source, out(), options_).has_value());
  write_file(out() / "other.tar", "mine");
  options_.samples_per_shard = 2;
  const auto refused = make_shards(source, out(), options_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(refused.error().message(), HasSubstr("--force"));
  EXPECT_EQ(members_of(out() / "shard-000000.tar").size(), 1U);

  options_.force = true;
  ASSERT_TRUE(make_shards(source, out(), options_).has_value());
  EXPECT_THAT(files_in(out()), ElementsAre("other.tar", "shard-000000.tar"));
  EXPECT_EQ(members_of(out() / "shard-000000.tar").size(), 2U);
}

// Otherwise the next start would take the shards that are gone for lost ones.
TEST_F(MakeShards, RemovesTheIndexesOfTheShardsThatItRemoves) {
  options_.samples_per_shard = 1;
  ASSERT_TRUE(make_shards(manifest(text_lines(3, 10)), out(), options_).has_value());
  EXPECT_EQ(Dataset::open(out(), {}).value()->findings().shards, 3U);
  EXPECT_TRUE(std::filesystem::exists(out() / ".isocost/shard-000002.tar.idx"));
  write_file(out() / ".isocost/shard-000002.tar.tokens", "tokens");
  write_file(out() / ".isocost/other.tar.idx", "of a shard that it leaves alone");
  options_.force = true;
  options_.samples_per_shard = 1000;
  ASSERT_TRUE(make_shards(manifest(text_lines(3, 10)), out(), options_).has_value());
  EXPECT_FALSE(std::filesystem::exists(out() / ".isocost/shard-000002.tar.idx"));
  EXPECT_FALSE(std::filesystem::exists(out() / ".isocost/shard-000002.tar.tokens"));
  std::filesystem::remove(out() / ".isocost/other.tar.idx");
  const auto dataset = Dataset::open(out(), {}).value();
  EXPECT_EQ(dataset->size(), 3U);
  EXPECT_TRUE(dataset->findings().broken.empty());
}

TEST_F(MakeShards, KeepsTheShardsThatItCouldNotReplace) {
  ASSERT_TRUE(make_shards(manifest(text_lines(2, 10)), out(), options_).has_value());
  const std::string before = read_file(out() / "shard-000000.tar");
  options_.force = true;
  options_.samples_per_shard = 1;
  const auto failed = make_shards(manifest(text_lines(2, 10) + "no JSON\n"), out(), options_);
  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(files_in(out()), ElementsAre("shard-000000.tar"));
  EXPECT_EQ(read_file(out() / "shard-000000.tar"), before);
}

TEST_F(MakeShards, NamesAFileThatItCannotLookAt) {
  const auto tree = scratch_ / "tree";
  std::filesystem::create_directory(tree);
  std::filesystem::create_symlink("loop.txt", tree / "loop.txt");
  const auto made = make_shards(tree, out(), options_);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), ErrorCode::kIo);
  EXPECT_THAT(made.error().message(), HasSubstr("loop.txt"));
}

struct BadCase {
  const char* line;
  const char* says;
};

class BadManifest : public MakeShards, public testing::WithParamInterface<BadCase> {};

TEST_P(BadManifest, IsAnErrorThatNamesItsLineOrIsLeftOut) {
  const std::string good = R"({"key": "good", "parts": [{"name": "txt", "text": "x"}]})";
  write_file(scratch_ / "junk.png", "this is no picture");
  write_file(scratch_ / "empty.png", "");
  const auto source = manifest(good + "\n" + GetParam().line + "\n");
  const auto refused = make_shards(source, out(), options_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(), HasSubstr("manifest.jsonl:2"));
  EXPECT_THAT(refused.error().message(), HasSubstr(GetParam().says));
  EXPECT_FALSE(std::filesystem::exists(out())) << "nothing half-made stays";

  options_.skip_bad = true;
  const auto made = make_shards(source, out(), options_);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(made->samples, 1U);
  ASSERT_EQ(made->bad.size(), 1U);
  EXPECT_THAT(made->bad[0].shard, HasSubstr("manifest.jsonl:2"));
  EXPECT_EQ(members_of(out() / "shard-000000.tar"), (Members{{"good.txt", "x"}}));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadManifest,
    testing::Values(
        BadCase{"no json", "a value is expected, and 'no json' stands there"},
        BadCase{"[1]", "not a JSON object"},
        BadCase{R"({"parts": [{"name": "txt", "text": "x"}]})", "no \"key\""},
        BadCase{R"({"key": "a"})", "no \"parts\""},
        BadCase{R"({"key": "a", "parts": []})", "no \"parts\""},
        BadCase{R"({"key": "a", "part": [], "parts": []})", "unknown member 'part'"},
        BadCase{R"({"key": "a", "parts": ["txt"]})", "not an object"},
        BadCase{R"({"key": "a", "parts": [{"text": "x"}]})", "no \"name\""},
        BadCase{R"({"key": "a", "parts": [{"name": "txt", "text": 5}]})", "none of"},
        BadCase{R"({"key": "a", "parts": [{"name": "txt", "text": "x", "file": "y"}]})", "one of"},
        BadCase{R"({"key": "a", "parts": [{"name": "png", "file": "gone.png"}]})", "gone.png"},
        BadCase{R"({"key": "a", "parts": [{"name": "png", "file": "junk.png"}]})", "a: png"},
        BadCase{R"({"key": "a", "parts": [{"name": "png", "file": "empty.png"}]})", "a: png"},
        BadCase{R"({"key": "a", "parts": [{"name": "json", "json": [1]}]})", "a: json"},
        BadCase{R"({"key": "a", "parts": [{"name": "bin", "text": "x"}]})", "no part that Isocost"},
        BadCase{R"({"key": "good", "parts": [{"name": "txt", "text": "x"}]})", "used before"},
        BadCase{R"({"key": "a", "parts": [{"name": "txt", "text": "x"}, {"name": "txt", "text":)"
                R"( "y"}]})",
                "named twice"},
        BadCase{R"({"key": "../a", "parts": [{"name": "txt", "text": "x"}]})", "'..'"},
        BadCase{R"({"key": "/a", "parts": [{"name": "txt", "text": "x"}]})", "absolute"},
        BadCase{R"({"key": "a.b", "parts": [{"name": "txt", "text": "x"}]})", "dot"},
        BadCase{R"({"key": "a", "parts": [{"name": "b/c.txt", "text": "x"}]})", "slash"}));

TEST_F(MakeShards, RefusesWhatCannotBeUnderstood) {
  EXPECT_EQ(make_shards(scratch_ / "nowhere", out(), options_).error().code(),
            ErrorCode::kNotFound);
  EXPECT_EQ(make_shards(manifest(""), out(), options_).error().code(), ErrorCode::kNotFound);
  options_.samples_per_shard = 0;
  EXPECT_THAT(make_shards(manifest(""), out(), options_).error().message(),
              HasSubstr("samples_per_shard = 0"));
  options_ = {};
  options_.name = "a/b";
  EXPECT_THAT(make_shards(manifest(""), out(), options_).error().message(), HasSubstr("a/b"));
}

TEST_F(MakeShards, LeavesNoDirectoryThatItMadeWhereItFails) {
  for (const char* lines : {"", "{\n"}) {
    EXPECT_FALSE(make_shards(manifest(lines), scratch_ / "a" / "b" / "", options_).has_value());
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "a"));
  }
  std::filesystem::create_directory(scratch_ / "a");
  EXPECT_FALSE(make_shards(manifest("{\n"), scratch_ / "a" / "b", options_).has_value());
  EXPECT_TRUE(std::filesystem::is_empty(scratch_ / "a"));
}

TEST_F(MakeShards, StopsWhenAskedAndLeavesNothing) {
  std::stop_source stop;
  options_.stop = stop.get_token();
  options_.samples_per_shard = 2;
  int written = 0;
  options_.progress = [&](std::uint64_t, std::uint64_t, std::string_view) {
    if (++written == 3) stop.request_stop();  // a shard done, one begun
  };
  const auto stopped = make_shards(manifest(text_lines(10, 10)), out(), options_);
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code(), ErrorCode::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(out()));
}

}  // namespace
}  // namespace isocost
