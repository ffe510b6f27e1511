#include "loader/dataset/formats/tar_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/support/tar_files.h"

namespace isocost {
namespace {

using testing::HasSubstr;

// Counts what is read, to show that bodies are not.
class StringSource final : public ByteSource {
 public:
  explicit StringSource(std::string bytes) : bytes_(std::move(bytes)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(bytes_.size()); }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> to) const override {
    const MemoryByteSource memory(std::as_bytes(std::span(bytes_)));
    auto read = memory.read_at(offset, to);
    if (read) read_bytes_ += *read;
    return read;
  }
  std::size_t read_bytes() const { return read_bytes_; }
  std::string at(const TarMember& member) const {
    return bytes_.substr(static_cast<std::size_t>(member.offset),
                         static_cast<std::size_t>(member.size));
  }

 private:
  std::string bytes_;
  mutable std::atomic<std::size_t> read_bytes_ = 0;
};

struct Listed {
  std::vector<TarMember> members;
  TarEnd end;
};

Listed list(const ByteSource& source) {
  Listed listed;
  auto listing = TarListing::open(source);
  EXPECT_TRUE(listing.has_value());
  while (auto member = listing->next()) listed.members.push_back(*member);
  listed.end = listing->end();
  return listed;
}

std::vector<TarFile> assorted() {
  const std::string deep = "a-rather-long-directory-name/";
  std::string long_name;
  for (int i = 0; i < 12; ++i) long_name += deep;
  return {{"plain.txt", "first"},
          {"empty.txt", ""},
          {"dir", "", 'd'},
          {"dir/block.bin", std::string(512, 'b')},
          {long_name + "image.jpg", std::string(3000, 'j')},
          {"gr\xC3\xBC\xC3\x9F"
           "e.txt",
           "name beyond ASCII"},
          {std::string(140, 'n') + ".json", "{}"}};
}

TEST(TarListing, OffsetsPointAtTheMembersBytesInEveryFormat) {
  for (const char* format : {"ustar", "pax", "gnutar"}) {
    auto files = assorted();
    if (format == std::string("ustar")) files = {files.begin(), files.begin() + 4};
    const StringSource source(make_tar(files, format));
    const Listed listed = list(source);
    EXPECT_EQ(listed.end.problem, "") << format;
    std::erase_if(files, [](const TarFile& file) { return file.type == 'd'; });
    ASSERT_EQ(listed.members.size(), files.size()) << format;
    for (std::size_t i = 0; i < files.size(); ++i) {
      EXPECT_EQ(listed.members[i].name, files[i].name) << format;
      EXPECT_EQ(listed.members[i].problem, "") << files[i].name;
      EXPECT_EQ(source.at(listed.members[i]), files[i].bytes) << format << files[i].name;
    }
  }
}

// GNU tar writes sizes beyond octal in base 256; here a small one is written so.
TEST(TarListing, ReadsBase256Sizes) {
  std::string tar = make_tar({{"a.txt", "hello"}, {"b.txt", "next"}}, "gnutar");
  std::memset(&tar[124], 0, 12);
  tar[124] = '\x80';
  tar[135] = 5;
  std::memset(&tar[148], ' ', 8);
  unsigned sum = 0;
  for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(tar[i]);
  std::snprintf(&tar[148], 8, "%06o", sum);
  const StringSource source(tar);
  const Listed listed = list(source);
  ASSERT_EQ(listed.members.size(), 2U);
  EXPECT_EQ(source.at(listed.members[0]), "hello");
  EXPECT_EQ(source.at(listed.members[1]), "next");
}

TEST(TarListing, JumpsOverBodies) {
  std::vector<TarFile> files;
  for (int i = 0; i < 16; ++i)
    files.push_back({std::to_string(i) + ".bin", std::string(1 << 20, 'x')});
  const StringSource source(make_tar(files));
  EXPECT_EQ(list(source).members.size(), 16U);
  EXPECT_LT(source.read_bytes(), 16U * 16384U);
}

// A name is the key of a sample, and no path is followed. These are the names that Python's tarfile
// gives, as bytes.
TEST(TarListing, NamesAreReadAsTheyStand) {
  const std::vector<std::string> names = {"../up.txt",     "a/../b.txt",    "/etc/passwd.txt",
                                          "tab\there.txt", "line\nend.txt", "a..b/c...txt",
                                          "caf\xE9.txt",   "bell\x07.txt"};
  for (const char* format : {"ustar", "gnutar", "pax"}) {
    std::vector<TarFile> files;
    for (const std::string& name : names) files.push_back({name, "x"});
    const Listed listed = list(StringSource(make_tar(files, format)));
    ASSERT_EQ(listed.members.size(), names.size()) << format;
    for (std::size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(listed.members[i].name, names[i]) << format;
      EXPECT_EQ(listed.members[i].problem, "") << format;
    }
  }
  EXPECT_EQ(list(StringSource(make_tar({{"./here.txt", "x"}}))).members[0].name, "here.txt");
}

TEST(TarListing, LinksAndSparseFilesAreBadAndTheRestIsNot) {
  const StringSource source(make_tar({{"link.txt", "plain.txt", 's'},
                                      {"hard.txt", "plain.txt", 'h'},
                                      {"sparse.bin", std::string(8192, 's'), 'p'},
                                      {"plain.txt", "good"}}));
  const Listed listed = list(source);
  ASSERT_EQ(listed.members.size(), 4U);
  EXPECT_THAT(listed.members[0].problem, HasSubstr("symbolic link"));
  EXPECT_THAT(listed.members[1].problem, HasSubstr("hard link"));
  EXPECT_NE(listed.members[2].problem, "");
  EXPECT_EQ(listed.members[3].problem, "");
  EXPECT_EQ(source.at(listed.members[3]), "good");
}

TEST(TarListing, ACutInABodyNamesTheMemberAndTheNumbers) {
  const std::string tar = make_tar({{"a.txt", "good"}, {"b.bin", std::string(4000, 'b')}}, "ustar");
  const StringSource source(tar.substr(0, 512 + 512 + 512 + 1000));
  const Listed listed = list(source);
  ASSERT_EQ(listed.members.size(), 2U);
  EXPECT_EQ(listed.members[0].problem, "");
  EXPECT_THAT(listed.members[1].problem, HasSubstr("1000 of 4000 bytes"));
  EXPECT_THAT(listed.members[1].problem, HasSubstr("copy the shard again"));
  EXPECT_EQ(listed.end.problem,
            "cut off within 'b.bin': 1000 of its 4000 bytes are there; copy the shard again");
}

TEST(TarListing, ACutInAHeaderSaysWhere) {
  const std::string tar = make_tar({{"a.txt", "good"}, {"b.bin", "more"}}, "ustar");
  const StringSource source(tar.substr(0, 1024 + 100));
  const Listed listed = list(source);
  ASSERT_EQ(listed.members.size(), 1U);
  EXPECT_EQ(listed.members[0].problem, "");
  EXPECT_THAT(listed.end.problem, HasSubstr("after 'a.txt'"));
}

// Nothing but the mark is missing after the bytes of the last member, whether its padding is there
// or a part of the mark.
TEST(TarListing, ACutBehindTheLastBytesLosesTheMarkAlone) {
  const std::string tar = make_tar({{"a.txt", "good"}, {"b.bin", "more"}}, "ustar");
  for (const std::size_t cut : {1540U, 1600U, 2047U, 2048U, 2049U, 2300U, 2559U}) {
    const StringSource source(tar.substr(0, cut));
    const Listed listed = list(source);
    ASSERT_EQ(listed.members.size(), 2U) << cut;
    EXPECT_EQ(listed.members[1].problem, "") << cut;
    EXPECT_EQ(source.at(listed.members[1]), "more") << cut;
    EXPECT_EQ(listed.end.problem, "") << cut;
    EXPECT_FALSE(listed.end.has_mark) << cut;
  }
  EXPECT_TRUE(list(StringSource(tar.substr(0, 2560))).end.has_mark);
  EXPECT_NE(list(StringSource(tar.substr(0, 2048) + "junk")).end.problem, "");
}

// Writing archives one after the other (`cat a.tar b.tar`) makes such a file.
TEST(TarListing, SaysWhatStandsBehindTheMark) {
  const std::string tar = make_tar({{"a.txt", "good"}}, "ustar");
  const std::string other = make_tar({{"b.txt", "unread"}}, "ustar");
  const Listed listed = list(StringSource(tar + other));
  EXPECT_EQ(listed.members.size(), 1U);
  EXPECT_TRUE(listed.end.has_mark);
  EXPECT_EQ(listed.end.unread_offset, static_cast<std::int64_t>(tar.size()));
  EXPECT_EQ(listed.end.unread_bytes, static_cast<std::int64_t>(other.size()));
  const Listed padded = list(StringSource(tar + std::string(10240, '\0')));
  EXPECT_EQ(padded.end.unread_bytes, 0);
  // A download that was allotted more than it got.
  const Listed hole = list(StringSource(tar.substr(0, 1024) + std::string(3 << 20, '\0')));
  EXPECT_EQ(hole.end.unread_bytes, 3 << 20);
}

TEST(TarListing, ACutBetweenMembersIsNoticed) {
  const std::string tar = make_tar({{"a.txt", "good"}, {"b.bin", "more"}}, "ustar");
  const StringSource source(tar.substr(0, 1024));
  const Listed listed = list(source);
  ASSERT_EQ(listed.members.size(), 1U);
  EXPECT_EQ(listed.members[0].problem, "");
  EXPECT_EQ(listed.end.problem, "");
  EXPECT_FALSE(listed.end.has_mark);
}

TEST(TarListing, EveryCutKeepsWhatStandsBeforeIt) {
  const std::vector<TarFile> files = {
      {"a.txt", "one"}, {"b.bin", std::string(700, 'b')}, {"c.txt", "three"}};
  const std::string tar = make_tar(files, "pax");
  const Listed whole = list(StringSource(tar));
  for (std::size_t cut = 1; cut < tar.size(); cut += 37) {
    const StringSource source(tar.substr(0, cut));
    std::size_t good = 0;
    for (const TarMember& member : list(source).members) {
      if (!member.problem.empty()) continue;
      EXPECT_EQ(source.at(member), files[good].bytes) << cut;
      ++good;
    }
    std::size_t whole_before = 0;
    for (const TarMember& member : whole.members) {
      if (static_cast<std::size_t>(member.offset + member.size) <= cut) ++whole_before;
    }
    EXPECT_EQ(good, whole_before) << cut;
  }
}

TEST(TarListing, WhatIsNoTarSaysSo) {
  EXPECT_THAT(list(StringSource("")).end.problem, HasSubstr("empty"));
  EXPECT_THAT(list(StringSource("this is no tar")).end.problem, HasSubstr("not a tar file"));
  EXPECT_THAT(list(StringSource(std::string(100000, 'z'))).end.problem,
              HasSubstr("not a tar file"));
  EXPECT_THAT(list(StringSource("\n<!DOCTYPE html>")).end.problem,
              HasSubstr("(it is an HTML or XML page, as a failed download leaves one); copy"));
  EXPECT_THAT(list(StringSource("PK\x03\x04" + std::string(2000, '\x01'))).end.problem,
              HasSubstr("(it is a ZIP archive); pack its files as a tar"));
  EXPECT_THAT(list(StringSource("version https://git-lfs.github.com/spec/v1\n")).end.problem,
              HasSubstr("git lfs pull"));
}

TEST(TarListing, AnEmptyTarHasNoMembersAndNoProblem) {
  const Listed listed = list(StringSource(std::string(1024, '\0')));
  EXPECT_TRUE(listed.members.empty());
  EXPECT_EQ(listed.end.problem, "");
}

TEST(TarListing, AHeaderBeyondTheLimitIsNamedWithWhatHelps) {
  const std::string name(std::size_t{2} << 20, 'x');
  const StringSource source(make_tar({{"a.txt", "x"}, {name + ".txt", "y"}}, "pax"));
  EXPECT_EQ(list(source).end.problem,
            "a member after 'a.txt' has names and attributes of more than 1 MiB, which are not "
            "read; pack it again without them");
  const StringSource alone(make_tar({{name + ".txt", "y"}}, "gnutar"));
  EXPECT_EQ(list(alone).end.problem,
            "a member has names and attributes of more than 1 MiB, which are not read; pack it "
            "again without them");
}

}  // namespace
}  // namespace isocost
