#include "loader/dataset/stores/shard_file.h"
#include "loader/dataset/stores/shard_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/scratch_directory.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

using testing::HasSubstr;

ShardIdentity identity_of(const std::filesystem::path& path) {
  const auto file = ShardFile::open(path).value();
  return {file->state().stamp, file->content_hash().value()};
}

std::string all_of(const ByteSource& source) {
  std::string bytes(static_cast<std::size_t>(source.size()) + 16, '\0');
  const auto read = source.read_at(0, std::as_writable_bytes(std::span(bytes)));
  EXPECT_TRUE(read.has_value());
  bytes.resize(read.value_or(0));
  return bytes;
}

// Returns how many of these files are still open.
std::size_t count_open(const std::vector<std::weak_ptr<const ShardFile>>& files) {
  std::set<std::shared_ptr<const ShardFile>> open;
  for (const auto& file : files) open.insert(file.lock());
  open.erase(nullptr);
  return open.size();
}

std::string varied(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * i / 7 + i);
  return bytes;
}

TEST(ShardFile, ReadsMembersInPlaceAndNotBeyondThem) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  write_file(scratch / "a.tar", "0123456789");
  const auto shard = ShardFile::open(scratch / "a.tar");
  ASSERT_TRUE(shard.has_value());
  const MemberSource member(*shard, 3, 4);
  EXPECT_EQ(member.size(), 4);
  EXPECT_EQ(all_of(member), "3456");
  std::array<std::byte, 8> room{};
  EXPECT_EQ(member.read_at(3, room).value(), 1U);
  EXPECT_EQ(member.read_at(4, room).value(), 0U);
  EXPECT_EQ(member.read_at(-1, room).error().code(), ErrorCode::kInvalidArgument);
}

TEST(ShardFile, InflatesGzipOfSeveralMembersWhateverItsName) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const std::string bytes = varied(700'000);
  write_file(scratch / "a.tar.gz", gzip(bytes) + gzip("tail") + std::string(10, '\0'));
  const auto shard = ShardFile::open(scratch / "a.tar.gz");
  ASSERT_TRUE(shard.has_value());
  EXPECT_TRUE((*shard)->inflated());
  EXPECT_EQ((*shard)->problem(), "");
  EXPECT_EQ(all_of(**shard), bytes + "tail");
}

TEST(ShardFile, ACutOrDamagedGzipGivesWhatStandsBefore) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const std::string bytes = varied(700'000);
  std::string packed = gzip(bytes);
  write_file(scratch / "cut.tgz", packed.substr(0, packed.size() / 2));
  const auto cut = ShardFile::open(scratch / "cut.tgz");
  ASSERT_TRUE(cut.has_value());
  EXPECT_THAT((*cut)->problem(), HasSubstr("cut off"));
  const std::string read = all_of(**cut);
  EXPECT_GT(read.size(), 100'000U);
  EXPECT_EQ(read, bytes.substr(0, read.size()));
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);  // its CRC
  write_file(scratch / "damaged.tgz", packed);
  EXPECT_THAT(ShardFile::open(scratch / "damaged.tgz").value()->problem(), HasSubstr("damaged"));
}

// pzstd and seekable files have frames that are to be skipped.
TEST(ShardFile, DecompressesZstdOfSeveralFramesWhateverItsName) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const std::string bytes = varied(1'500'000);
  const std::string skipped = std::string("\x50\x2A\x4D\x18\x04\0\0\0skip", 12);
  write_file(scratch / "a.tar", skipped + zstd(bytes) + zstd("tail") + std::string(10, '\0'));
  const auto shard = ShardFile::open(scratch / "a.tar").value();
  EXPECT_TRUE(shard->inflated());
  EXPECT_EQ(shard->problem(), "");
  EXPECT_EQ(shard->unread(), "");
  EXPECT_EQ(all_of(*shard), bytes + "tail");
}

TEST(ShardFile, ACutOrDamagedZstdGivesWhatStandsBefore) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const std::string bytes = varied(1'500'000);
  std::string packed = zstd(bytes);
  write_file(scratch / "cut.tzst", packed.substr(0, packed.size() - 40));
  const auto cut = ShardFile::open(scratch / "cut.tzst").value();
  EXPECT_THAT(cut->problem(), HasSubstr("the zstd stream is cut off at byte"));
  const std::string read = all_of(*cut);
  EXPECT_EQ(read, bytes.substr(0, read.size()));
  packed.back() = static_cast<char>(packed.back() ^ 1);  // its checksum
  write_file(scratch / "damaged.tzst", packed);
  EXPECT_THAT(ShardFile::open(scratch / "damaged.tzst").value()->problem(),
              HasSubstr("the zstd stream is damaged"));
}

TEST(ShardFile, SaysWhatStandsBehindACompressedStream) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  for (const auto& [name, packed] : {std::pair("a.tgz", gzip("text")), {"a.tzst", zstd("text")}}) {
    write_file(scratch / name, packed + std::string(300'000, '\0') + "more");
    const auto shard = ShardFile::open(scratch / name).value();
    EXPECT_EQ(shard->problem(), "") << name;
    EXPECT_EQ(all_of(*shard), "text") << name;
    EXPECT_THAT(shard->unread(), testing::StartsWith("4 bytes from byte")) << name;
  }
}

// `zstd --long=31` makes streams whose decoder would take 2 GiB.
TEST(ShardFile, AZstdWindowBeyondTheLimitIsNamed) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const std::string frame("\x28\xB5\x2F\xFD\x00\xA8\x01\x00\x00", 9);  // a window of 2 GiB
  write_file(scratch / "a.tzst", frame);
  EXPECT_EQ(ShardFile::open(scratch / "a.tzst").value()->problem(),
            "the zstd stream needs a window of more than 128 MiB; compress it again with zstd "
            "--long=27 at most");
}

TEST(ShardFile, ABombIsRefusedAtItsLimit) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  write_file(scratch / "bomb.tgz", gzip(std::string(10 << 20, '\0')));
  write_file(scratch / "bomb.tzst", zstd(std::string(10 << 20, '\0')));
  for (const char* name : {"bomb.tgz", "bomb.tzst"}) {
    const auto shard = ShardFile::open(scratch / name, 1 << 20);
    ASSERT_FALSE(shard.has_value());
    EXPECT_EQ(shard.error().code(), ErrorCode::kResourceExhausted);
    EXPECT_THAT(shard.error().message(), HasSubstr(name));
  }
}

TEST(ShardFile, NamesTheFileThatIsNotThere) {
  const auto shard = ShardFile::open("nowhere/x.tar");
  ASSERT_FALSE(shard.has_value());
  EXPECT_EQ(shard.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(shard.error().message(), HasSubstr("nowhere/x.tar"));
}

TEST(ShardCache, KeepsTheShardsUsedLastAndReadersKeepTheirs) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  std::vector<std::filesystem::path> paths;
  std::vector<ShardIdentity> identities;
  for (int i = 0; i < 4; ++i) {
    paths.push_back(scratch / (std::to_string(i) + ".tar"));
    write_file(paths.back(), std::string(3, static_cast<char>('a' + i)));
    identities.push_back(identity_of(paths.back()));
  }
  ShardCache cache(2);
  const auto first = cache.get({paths[0]}, identities[0]).value();
  const std::weak_ptr second = cache.get({paths[1]}, identities[1]).value();
  EXPECT_EQ(cache.get({paths[0]}, identities[0]).value(), first);
  const std::weak_ptr third = cache.get({paths[2]}, identities[2]).value();
  EXPECT_TRUE(second.expired());
  EXPECT_FALSE(third.expired());
  EXPECT_EQ(cache.get({paths[0]}, identities[0]).value(), first) << "used last, so still open";
  (void)cache.get({paths[1]}, identities[1]).value();
  (void)cache.get({paths[3]}, identities[3]).value();
  EXPECT_EQ(all_of(*first), "aaa");
}

TEST(ShardCache, InflatedBytesAreBounded) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  ShardCache cache(100, 2500);
  std::vector<std::weak_ptr<const ShardFile>> files;
  for (int i = 0; i < 5; ++i) {
    const auto path = scratch / (std::to_string(i) + ".tgz");
    write_file(path, gzip(std::string(1000, 'x')));
    files.emplace_back(cache.get({path}, identity_of(path)).value());
  }
  EXPECT_EQ(count_open(files), 2U);
}

TEST(ShardCache, AShardThatChangedIsRefused) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  write_file(scratch / "a.tar", "before");
  const ShardIdentity before = identity_of(scratch / "a.tar");
  write_file(scratch / "a.tar", "after that");
  ShardCache cache;
  const auto file = cache.get({scratch / "a.tar"}, before);
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(file.error().message(), HasSubstr("a.tar: has changed"));
}

// They change the time of the last change, and no byte.
TEST(ShardCache, AnOpenShardWhoseModeAndLinksChangeIsStillTheSame) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const auto path = scratch / "a.tar";
  write_file(path, std::string(200'000, 'a'));
  const ShardIdentity identity = identity_of(path);
  ShardCache cache;
  ASSERT_TRUE(cache.get({path}, identity).has_value());
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  EXPECT_TRUE(cache.get({path}, identity).has_value());
  std::filesystem::create_hard_link(path, scratch / "b.tar");
  EXPECT_TRUE(cache.get({path}, identity).has_value());
}

TEST(ShardCache, OtherBytesOfTheSameSizeAndTimeAreRefusedEvenWhileTheShardIsOpen) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const auto path = scratch / "a.tar";
  for (const std::size_t size : {std::size_t{6}, std::size_t{200'000}}) {
    write_file(path, std::string(size, 'a'));
    const auto time = std::filesystem::last_write_time(path);
    const ShardIdentity identity = identity_of(path);
    ShardCache cache;
    ASSERT_TRUE(cache.get({path}, identity).has_value());
    std::fstream(path, std::ios::in | std::ios::out)
        .write(std::string(size, 'b').data(), static_cast<std::streamsize>(size));
    std::filesystem::last_write_time(path, time);
    EXPECT_EQ(cache.get({path}, identity).error().code(), ErrorCode::kUnavailable);
  }
}

TEST(ShardCache, AChangeOfWhatIsNotContentIsNoChange) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const auto path = scratch / "a.tar";
  write_file(path, "as it was");
  const ShardIdentity identity = identity_of(path);
  ShardCache cache;
  const auto before = cache.get({path}, identity).value();
  std::filesystem::create_hard_link(path, scratch / "b.tar");
  const auto after = cache.get({path}, identity).value();
  EXPECT_EQ(all_of(*after), "as it was");
}

TEST(ShardCache, AShardThatWasPutBackIsServedAgain) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  const auto path = scratch / "a.tar";
  write_file(path, "as it was");
  const ShardIdentity identity = identity_of(path);
  ShardCache cache;
  std::filesystem::rename(path, scratch / "away");
  EXPECT_EQ(cache.get({path}, identity).error().code(), ErrorCode::kNotFound);
  std::filesystem::rename(scratch / "away", path);
  EXPECT_EQ(all_of(*cache.get({path}, identity).value()), "as it was");
}

TEST(ShardCache, FitsTheNumberOfFilesThatTheProcessMayOpen) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(default_max_open(), 50U);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LE(default_max_open(), 256U);
}

TEST(ShardCache, ServesManyThreads) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-test").value();
  std::vector<std::filesystem::path> paths;
  std::vector<ShardIdentity> identities;
  for (int i = 0; i < 8; ++i) {
    paths.push_back(scratch / (std::to_string(i) + ".tgz"));
    write_file(paths.back(), gzip(std::string(1000, static_cast<char>('a' + i))));
    identities.push_back(identity_of(paths.back()));
  }
  ShardCache cache(3);
  std::atomic<int> wrong = 0;
  std::array<std::vector<std::weak_ptr<const ShardFile>>, 4> seen;  // [thread]
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < seen.size(); ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 40; ++i) {
          const std::size_t which = (i * (t + 1)) % paths.size();
          const auto file = cache.get({paths[which]}, identities[which]);
          if (!file || all_of(**file) != std::string(1000, static_cast<char>('a' + which))) ++wrong;
          if (file) seen.at(t).emplace_back(*file);
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  std::vector<std::weak_ptr<const ShardFile>> files;
  for (const auto& of_thread : seen) files.insert(files.end(), of_thread.begin(), of_thread.end());
  EXPECT_EQ(count_open(files), 3U);
}

}  // namespace
}  // namespace isocost
