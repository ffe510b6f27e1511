#include "loader/dataset/names/named_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/scratch_directory.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class NamedFilesTest : public testing::Test {
 protected:
  NamedFilesTest() {
    for (const char* name : {"en/0.tar", "en/1.tar", "fr/0.tar", "fr/note.txt", "fr/2.tar.xz"}) {
      write_file(scratch_ / name, "x");
    }
  }
  std::vector<NamedFiles> resolved(std::string_view text) const {
    auto entries = resolve_names(text, scratch_.path());
    EXPECT_TRUE(entries.has_value()) << entries.error().to_string();
    return entries ? *std::move(entries) : std::vector<NamedFiles>();
  }
  NamedFiles one(std::string_view text) const {
    std::vector<NamedFiles> entries = resolved(text);
    EXPECT_EQ(entries.size(), 1U);
    return entries.empty() ? NamedFiles() : entries.front();
  }
  // The files that an entry names, without those of its directories.
  static std::vector<std::string> files_of(const NamedFiles& entry) {
    std::vector<std::string> files;
    for (const NamedPart& part : entry.parts) {
      if (part.kind == NamedPart::Kind::kFile) files.push_back(part.path);
      files.insert(files.end(), part.files.begin(), part.files.end());
    }
    return files;
  }
  static bool is_directory(const NamedFiles& entry) {
    return entry.parts.size() == 1 && entry.parts[0].kind == NamedPart::Kind::kDirectory;
  }
  static bool means(const NamedFiles& entry, const std::string& name) {
    return std::ranges::any_of(entry.parts,
                               [&](const NamedPart& part) { return part.meaning()(name); });
  }
  Error refused(std::string_view text) const {
    const auto entries = resolve_names(text, scratch_.path());
    EXPECT_FALSE(entries.has_value()) << text;
    return entries ? Error(ErrorCode::kInternal, "") : entries.error();
  }

  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
};

TEST_F(NamedFilesTest, TakesADirectoryAndAShard) {
  const NamedFiles directory = one("en");
  EXPECT_TRUE(is_directory(directory));
  EXPECT_EQ(directory.root, scratch_ / "en");
  const NamedFiles shard = one("en/0.tar");
  EXPECT_FALSE(is_directory(shard));
  EXPECT_EQ(shard.root, scratch_ / "en");
  EXPECT_THAT(files_of(shard), ElementsAre("0.tar"));
}

TEST_F(NamedFilesTest, NamesBeginAtTheFirstWildcardOrBrace) {
  const NamedFiles braces = one("{en,fr}/{0..1}.tar");
  EXPECT_EQ(fs::path(braces.root).lexically_normal(), scratch_ / "");
  EXPECT_THAT(files_of(braces), ElementsAre("en/0.tar", "en/1.tar", "fr/0.tar", "fr/1.tar"))
      << "what braces name need not exist";
  const NamedFiles glob = one("en/*.tar");
  EXPECT_EQ(fs::path(glob.root).lexically_normal(), scratch_ / "en/");
  EXPECT_THAT(files_of(glob), ElementsAre("0.tar", "1.tar"));
  EXPECT_TRUE(means(glob, "7.tar"));
  EXPECT_FALSE(means(glob, "old/7.tar"));
  EXPECT_THAT(files_of(one("{fr,en}/*.tar")), ElementsAre("fr/0.tar", "en/0.tar", "en/1.tar"))
      << "in the order of the braces";
  EXPECT_THAT(files_of(one("**/*.tar")), ElementsAre("en/0.tar", "en/1.tar", "fr/0.tar"));
}

TEST_F(NamedFilesTest, DirectoriesInBracesMeanTheirShards) {
  const NamedFiles both = one("{en,fr}");
  ASSERT_EQ(both.parts.size(), 2U);
  EXPECT_EQ(both.parts[1].kind, NamedPart::Kind::kDirectory);
  EXPECT_EQ(both.parts[1].path, "fr");
  EXPECT_TRUE(means(both, "fr/7.tar"));
  EXPECT_FALSE(means(both, "fr/old/7.tar"));
  EXPECT_THAT(refused("{en,de}").message(), HasSubstr("{en,de}: de: no such file or directory"));
}

TEST_F(NamedFilesTest, WordsOfBracesAreTakenLiterallyToo) {
  write_file(scratch_ / "w[1]/0.tar", "x");
  write_file(scratch_ / "e{1..3}/0.tar", "x");
  EXPECT_EQ(one("{en,w[1]}").parts.at(1).path, "w[1]");
  const NamedFiles run = one("e{1..3}/*.tar");
  EXPECT_EQ(fs::path(run.root).lexically_normal(), scratch_ / "e{1..3}/");
  EXPECT_THAT(files_of(run), ElementsAre("0.tar"));
}

TEST_F(NamedFilesTest, ABraceThatIsNoneIsRefused) {
  EXPECT_THAT(refused("en/s-{000-003}.tar").message(),
              HasSubstr("'s-{000-003}.tar': a brace that neither lists, as {a,b}, nor counts"));
  EXPECT_THAT(refused("en/{" + std::string(60'000, '{')).message(), HasSubstr("no other one"));
  EXPECT_THAT(refused("en/" + std::string(60, '{') + "a,b" + std::string(60, '}')).message(),
              HasSubstr("stand in each other"));
  write_file(scratch_ / "en/list.txt", "0.tar\n");
  EXPECT_THAT(refused("{en,fr}/../../0.tar").message(), HasSubstr("leaves the directory"));
  EXPECT_THAT(refused("en/{list.txt,0.tar}").message(),
              HasSubstr("list.txt is a list; give it alone"));
}

TEST_F(NamedFilesTest, AnAbsolutePathInBracesIsRefused) {
  const std::string en = (scratch_ / "en").string();
  EXPECT_THAT(refused("{" + en + "," + en + "}/*.tar").message(),
              HasSubstr("leaves the directory before the first wildcard or brace"));
}

TEST_F(NamedFilesTest, AnExistingPathIsTakenLiterally) {
  for (const char* name :
       {"odd/{0..9}.tar", "odd/*.tar", "odd/a,b.tar", "odd/a::b.tar", "odd/[x].tar"}) {
    write_file(scratch_ / name, "x");
    EXPECT_THAT(files_of(one(name)), ElementsAre(fs::path(name).filename().string()));
  }
  write_file(scratch_ / "{odd}/0.tar", "x");
  EXPECT_TRUE(is_directory(one("{odd}")));
}

TEST_F(NamedFilesTest, SeveralStandBetweenColons) {
  const std::vector<NamedFiles> entries = resolved("fr/0.tar::en");
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_THAT(files_of(entries[0]), ElementsAre("0.tar"));
  EXPECT_TRUE(is_directory(entries[1]));
  EXPECT_EQ(refused("fr/0.tar::").code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused("").code(), ErrorCode::kInvalidArgument);
}

TEST_F(NamedFilesTest, AListHasAnEntryOnEachLine) {
  write_file(scratch_ / "lists/train.txt",
             "\xEF\xBB\xBF# shards to train on\r\n../en/0.tar\r\n\n../fr/*.tar\n../fr");
  const std::vector<NamedFiles> entries = resolved("lists/train.txt");
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_THAT(files_of(entries[0]), ElementsAre("0.tar"));
  EXPECT_EQ(fs::weakly_canonical(entries[0].root), fs::weakly_canonical(scratch_ / "en"));
  EXPECT_THAT(files_of(entries[1]), ElementsAre("0.tar"));
  EXPECT_THAT(entries[1].given, HasSubstr("train.txt, line 4: ../fr/*.tar"));
  EXPECT_TRUE(is_directory(entries[2]));
}

TEST_F(NamedFilesTest, ALineThatNamesNothingIsRefusedByNumber) {
  write_file(scratch_ / "list", "en/0.tar\nhello world\n");
  EXPECT_THAT(refused("list").message(), HasSubstr("list, line 2: hello world: no such file"));
  write_file(scratch_ / "list", "en/0.tar\nnowhere/*.tar\n");
  EXPECT_THAT(refused("list").message(), HasSubstr("list, line 2: nowhere/*.tar: "));
  write_file(scratch_ / "list", "en/0.tar\n{0..\n");
  EXPECT_THAT(refused("list").message(),
              HasSubstr("list, line 2: {0..: the brace at '{0..' has no"));
  write_file(scratch_ / "other", "en/0.tar");
  write_file(scratch_ / "list", "other\n");
  EXPECT_THAT(refused("list").message(), HasSubstr("list, line 1: other: a list in a list"));
  write_file(scratch_ / "list", "s3://bucket/0.tar\n");
  EXPECT_THAT(refused("list").message(), HasSubstr("line 1: s3://bucket/0.tar: an address"));
  write_file(scratch_ / "list", "# nothing\n");
  EXPECT_THAT(refused("list").message(), HasSubstr("a list without a path"));
  write_file(scratch_ / "list", "en/0.tar::en/1.tar\n");
  EXPECT_THAT(refused("list").message(), HasSubstr("line 1: en/0.tar::en/1.tar: '::' in a line"));
}

TEST_F(NamedFilesTest, NamesAddressesAndCommandsWithWhatToDo) {
  EXPECT_THAT(refused("hf://datasets/a/{0..9}.tar").message(), HasSubstr("hf download"));
  EXPECT_THAT(refused("gs://bucket/*.tar").message(), HasSubstr("storage.googleapis.com"));
  EXPECT_THAT(refused("az://c/0.tar").message(), HasSubstr("azcopy copy"));
  EXPECT_THAT(refused("s3a://bucket/0.tar").message(), HasSubstr("write s3:// in its place"));
  EXPECT_THAT(refused("S3N://bucket/*.tar").message(), HasSubstr("write s3:// in its place"));
  EXPECT_THAT(refused("https://host/0.tar").message(), HasSubstr("copy it to a disk"));
  for (const char* command : {"pipe:curl -s https://host/{0..9}.tar", "pipe:cat 0.tar"}) {
    EXPECT_THAT(refused(command).message(), HasSubstr("a command of WebDataset, which is not run"));
  }
}

TEST_F(NamedFilesTest, PrintsTheMixtureOfAMetadataset) {
  write_file(scratch_ / "mix.yaml",
             "__module__: megatron.energon\n__class__: MetadatasetV2\n"
             "splits: {train: {blend: [{weight: 2, path: en}, {weight: 1, path: fr}]}}\n");
  const std::string message = refused("mix.yaml").message();
  EXPECT_THAT(message, HasSubstr("a metadataset of Energon, which is not read"));
  EXPECT_THAT(message, HasSubstr("path = \"en\"\nsplit = \"train\"\nproportion = 2\n"));
  write_file(scratch_ / "list.yaml", "en/0.tar\n");
  EXPECT_THAT(files_of(resolved("list.yaml").at(0)), ElementsAre("0.tar"));
}

TEST_F(NamedFilesTest, SaysWhatLiesBeside) {
  const Error nothing = refused("en2");
  EXPECT_EQ(nothing.code(), ErrorCode::kNotFound);
  EXPECT_THAT(nothing.message(), HasSubstr("en2: no such file or directory; in "));
  EXPECT_THAT(nothing.message(), HasSubstr("there are en, fr"));
  EXPECT_THAT(refused("nowhere/{0..9}.tar").message(), HasSubstr("nowhere/: no such directory"));
  EXPECT_THAT(refused("nowhere/0.tar").message(), HasSubstr("nowhere: no such directory"));
}

TEST_F(NamedFilesTest, SaysWhatMayBeMeant) {
  EXPECT_THAT(refused("en,fr").message(), HasSubstr("'::' stands between several"));
  EXPECT_THAT(refused("~/data").message(), HasSubstr("'~' and '$' are not expanded"));
  EXPECT_THAT(refused("$DATA/en").message(), HasSubstr("'~' and '$' are not expanded"));
  EXPECT_THAT(refused(std::string_view("en\0x", 4)).message(), HasSubstr("a byte of value 0"));
  write_file(scratch_ / "mixture.toml", "[[source]]");
  EXPECT_THAT(refused("en::mixture.toml").message(),
              HasSubstr("mixture.toml: a mixture, which is given alone"));
}

// It may be lost, and the options say how many may be.
TEST_F(NamedFilesTest, AShardThatIsNamedNeedNotExist) {
  EXPECT_THAT(files_of(one("en/7.tar")), ElementsAre("7.tar"));
}

TEST_F(NamedFilesTest, NamesStayBelowTheirRoot) {
  EXPECT_THAT(refused("en/*/../../fr/0.tar").message(), HasSubstr("leaves the directory"));
  EXPECT_THAT(files_of(one("en/../fr/*.tar")), ElementsAre("0.tar"));
}

TEST_F(NamedFilesTest, RecordsAreNoShards) {
  write_file(scratch_ / "docs.jsonl", "{}\n");
  EXPECT_EQ(one("docs.jsonl").parts.at(0).kind, NamedPart::Kind::kRecords);
  EXPECT_EQ(one("{en/0.tar,docs.jsonl}").parts.at(1).kind, NamedPart::Kind::kRecords);
  EXPECT_THAT(files_of(one("*.jsonl")), ElementsAre("docs.jsonl"));
}

}  // namespace
}  // namespace isocost
