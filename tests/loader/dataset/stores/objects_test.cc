// Objects on a server, as shards: over a store that answers after a while.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/byte_range.h"
#include "base/byte_source.h"
#include "base/scratch_directory.h"
#include "loader/dataset/index/index_beside.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/stores/cache/cached_store.h"
#include "loader/dataset/stores/cache/object_cache.h"
#include "loader/dataset/stores/shard_cache.h"
#include "loader/dataset/stores/shard_file.h"
#include "loader/dataset/stores/stored_file.h"
#include "loader/dataset/stores/stored_objects.h"
#include "tests/support/slow_store.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::FieldsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// Bytes that differ from place to place.
std::string bytes_of(std::int64_t count) {
  std::string bytes;
  for (std::int64_t i = 0; std::ssize(bytes) < count; ++i) bytes += std::to_string(i * 7919);
  bytes.resize(static_cast<std::size_t>(count));
  return bytes;
}

Result<std::string> read(const ByteSource& source, std::int64_t offset, std::size_t count) {
  std::string bytes(count, '\0');
  ISOCOST_ASSIGN(const std::size_t read,
                 source.read_at(offset, std::as_writable_bytes(std::span(bytes))));
  bytes.resize(read);
  return bytes;
}

class Objects : public testing::Test {
 protected:
  StoredFile file(const std::string& key) const { return {"slow://" + key, objects_, key}; }
  std::shared_ptr<const ShardFile> open(const std::string& key) const {
    return open_shard(file(key)).value();
  }

  const std::shared_ptr<SlowStore> store_ = std::make_shared<SlowStore>();
  const std::shared_ptr<StoredObjects> objects_ = std::make_shared<StoredObjects>(store_);
};

TEST_F(Objects, OpeningAsksForTheStampOnceAndReadsNothing) {
  store_->put("a.tar", "bytes");
  EXPECT_EQ(open("a.tar")->size(), 5);
  EXPECT_EQ(open("a.tar")->size(), 5);
  EXPECT_EQ(store_->stamps(), 1U);
  EXPECT_THAT(store_->reads(), SizeIs(0));
  EXPECT_EQ(open_shard(file("b.tar")).error().code(), ErrorCode::kNotFound);
}

TEST_F(Objects, AReadIsOneRequestOfItsRangeCutAtTheEnd) {
  store_->put("a.tar", bytes_of(1000));
  const auto shard = open("a.tar");
  EXPECT_EQ(read(*shard, 100, 50).value(), bytes_of(1000).substr(100, 50));
  EXPECT_EQ(read(*shard, 990, 50).value(), bytes_of(1000).substr(990));
  EXPECT_EQ(read(*shard, 1000, 50).value(), "");
  EXPECT_THAT(store_->reads(), ElementsAre(FieldsAre(100, 150), FieldsAre(990, 1000)));
  EXPECT_EQ(read(*shard, -1, 1).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(Objects, FetchedRangesAreAskedForAtOnceAndReadWithoutAnotherRequest) {
  const std::string bytes = bytes_of(3 * kMiB);
  store_->put("a.tar", bytes);
  const std::vector<ByteRange> ranges = {{512, 2000}, {kMiB, kMiB + 100}, {4 * kMiB, 5 * kMiB}};
  const auto fetched = open("a.tar")->fetch(ranges, {});
  EXPECT_EQ(read(*fetched, 512, 1488).value(), bytes.substr(512, 1488));
  EXPECT_EQ(read(*fetched, 600, 10).value(), bytes.substr(600, 10));
  EXPECT_EQ(read(*fetched, kMiB, 100).value(), bytes.substr(kMiB, 100));
  EXPECT_THAT(store_->reads(), ElementsAre(FieldsAre(512, 2000), FieldsAre(kMiB, kMiB + 100)));
}

TEST_F(Objects, AReadAcrossTheEndOfAFetchedRangeIsWhole) {
  const std::string bytes = bytes_of(3 * kMiB);
  store_->put("a.tar", bytes);
  const std::vector<ByteRange> ranges = {{512, 2000}, {3000, 4000}};
  const auto fetched = open("a.tar")->fetch(ranges, {});
  EXPECT_EQ(read(*fetched, 0, 5000).value(), bytes.substr(0, 5000));
  EXPECT_EQ(read(*fetched, 2 * kMiB, 2 * kMiB).value(), bytes.substr(2 * kMiB));
}

TEST_F(Objects, APassAsksForMoreTheLongerReadsFollowEachOther) {
  const std::string bytes = bytes_of(20 * kMiB);
  store_->put("a.tar", bytes);
  const auto shard = open("a.tar");
  const auto pass = shard->pass();
  EXPECT_EQ(read(*pass, 100, 1000).value(), bytes.substr(100, 1000));
  EXPECT_THAT(store_->reads(), ElementsAre(FieldsAre(0, kMiB)));
  for (std::int64_t at = 0; at < 20 * kMiB; at += 1000) {
    ASSERT_EQ(read(*pass, at, 1000).value(), bytes.substr(static_cast<std::size_t>(at), 1000));
    if ((at + 1000) / kMiB == 1) {
      EXPECT_LE(store_->reads().size(), 3U);
    }
  }
  EXPECT_THAT(store_->reads(), SizeIs(20));  // each byte once
}

TEST_F(Objects, APassThatJumpsAsksOnlyForWhatItReads) {
  store_->put("a.tar", bytes_of(40 * kMiB));
  const auto pass = open("a.tar")->pass();
  for (std::int64_t at = 0; at < 40 * kMiB; at += 10 * kMiB) EXPECT_TRUE(read(*pass, at, 512));
  EXPECT_THAT(store_->reads(), SizeIs(4));
}

TEST_F(Objects, AFailedReadIsAnErrorAndTheNextOneAsksAgain) {
  store_->put("a.tar", bytes_of(kMiB));
  const auto shard = open("a.tar");
  const auto pass = shard->pass();
  store_->refuse_reads(1);
  EXPECT_EQ(read(*pass, 0, 10).error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(read(*pass, 0, 10).value(), bytes_of(10));
  EXPECT_TRUE(shard->changed());
}

TEST_F(Objects, TheContentHashIsThatOfTheSameFileOnADisk) {
  const ScratchDirectory scratch = ScratchDirectory::create("objects").value();
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{100}, 3 * kMiB}) {
    const std::string bytes = bytes_of(size);
    store_->put("a.tar", bytes);
    objects_->forget("a.tar");
    write_file(scratch / "a.tar", bytes);
    const auto local = ShardFile::open(scratch / "a.tar").value();
    EXPECT_EQ(open("a.tar")->content_hash().value(), local->content_hash().value()) << size;
    EXPECT_EQ(open("a.tar")->whole_hash({}).value(), local->whole_hash({}).value()) << size;
  }
}

TEST_F(Objects, AStopEndsTheWaitForBytes) {
  const auto slow = std::make_shared<SlowStore>(std::chrono::hours(1));
  // The stamp is listed, since asking for it would take as long.
  slow->put("a.tar", "bytes");
  const auto objects = std::make_shared<StoredObjects>(slow);
  ASSERT_TRUE(objects->list("", true, {}));
  const auto shard = open_shard({"slow://a.tar", objects, "a.tar"}).value();
  std::stop_source stop;
  const std::vector<ByteRange> ranges = {{0, 5}};
  const auto fetched = shard->fetch(ranges, stop.get_token());
  stop.request_stop();
  EXPECT_EQ(read(*fetched, 0, 5).error().code(), ErrorCode::kCancelled);
}

class CachedObjects : public Objects {
 protected:
  ShardIdentity identity(const std::string& key) const {
    const auto shard = open(key);
    return {shard->state().stamp, shard->content_hash().value()};
  }
  ShardCache cache_;
};

TEST_F(CachedObjects, AnObjectOfTheIndexedStampIsNotReadToBeCompared) {
  store_->put("a.tar", bytes_of(kMiB));
  const ShardIdentity indexed = identity("a.tar");
  const std::size_t reads = store_->reads().size();
  EXPECT_TRUE(cache_.get(file("a.tar"), indexed));
  EXPECT_EQ(store_->reads().size(), reads);
}

TEST_F(CachedObjects, AnObjectOfAnotherStampIsComparedOnceByItsContent) {
  store_->put("a.tar", bytes_of(kMiB));
  ShardIdentity indexed = identity("a.tar");
  indexed.stamp.mtime_ns = 1;  // that of a file on a disk
  const std::size_t reads = store_->reads().size();
  EXPECT_TRUE(cache_.get(file("a.tar"), indexed));
  EXPECT_EQ(store_->reads().size(), reads + 16);
  EXPECT_TRUE(ShardCache().get(file("a.tar"), indexed));
  EXPECT_TRUE(cache_.get(file("a.tar"), indexed));
  EXPECT_EQ(store_->reads().size(), reads + 32);
}

TEST_F(CachedObjects, AReplacedObjectIsRefusedAndTakenAgainWhenItsBytesAreBack) {
  const std::string bytes = bytes_of(kMiB);
  store_->put("a.tar", bytes);
  const ShardIdentity indexed = identity("a.tar");
  const auto shard = cache_.get(file("a.tar"), indexed).value();
  store_->put("a.tar", std::string(bytes.size(), 'x'));
  EXPECT_THAT(read(*shard, 0, 10).error().message(), HasSubstr("slow://a.tar: has changed"));
  const auto refused = cache_.get(file("a.tar"), indexed);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr("slow://a.tar: has changed since it was index"));
  store_->put("a.tar", bytes);  // under another tag, as after a second upload
  const auto again = cache_.get(file("a.tar"), indexed);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(read(**again, 0, 10).value(), bytes.substr(0, 10));
}

// Tokens may be made, and uploaded, after the index was copied.
TEST_F(Objects, TokensBesideAShardAreCopiedWhereThereAreNone) {
  const ScratchDirectory scratch = ScratchDirectory::create("beside").value();
  const std::filesystem::path tokens = scratch / "indexes/a.tar.tokens";
  const ShardPlace place{.root = shard_root("slow://", scratch / "indexes", objects_),
                         .name = "a.tar"};
  const ShardPlace other{.root = place.root, .name = "b.tar"};
  EXPECT_FALSE(copy_tokens_beside(other, scratch / "indexes/b.tar.tokens", {}, {}).value());
  store_->put(".isocost/a.tar.tokens", "first");
  EXPECT_TRUE(copy_tokens_beside(place, tokens, {}, {}).value());
  store_->put(".isocost/a.tar.tokens", "second");
  EXPECT_FALSE(copy_tokens_beside(place, tokens, {}, {}).value());
  std::ifstream file(tokens);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "first");
}

TEST_F(Objects, AnObjectIsHeldInPiecesAndAFailureIsTold) {
  const ScratchDirectory scratch = ScratchDirectory::create("held").value();
  const auto cache = ObjectCache::open({.directory = scratch / "cache"}).value();
  cache->keep_pieces();
  StoredObjects objects(create_cached_store(store_, cache));
  store_->put("a.tar", bytes_of(33 * kMiB));
  EXPECT_TRUE(objects.hold("a.tar", {}));
  EXPECT_THAT(store_->reads(),
              UnorderedElementsAre(FieldsAre(0, 16 * kMiB), FieldsAre(16 * kMiB, 32 * kMiB),
                                   FieldsAre(32 * kMiB, 33 * kMiB)));
  EXPECT_TRUE(objects.hold("a.tar", {}));
  EXPECT_THAT(store_->reads(), SizeIs(3));
  store_->put("b.tar", bytes_of(33 * kMiB));
  store_->refuse_reads(1);
  EXPECT_EQ(objects.hold("b.tar", {}).error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(objects.hold("absent.tar", {}).error().code(), ErrorCode::kNotFound);
}

TEST_F(Objects, StampsOfManyAreAskedForTogether) {
  const auto slow = std::make_shared<SlowStore>(milliseconds(20));
  std::vector<std::string> keys;
  for (int i = 0; i < 128; ++i) {
    keys.push_back(std::to_string(i));
    if (i != 77) slow->put(keys.back(), "x");
  }
  const auto objects = std::make_shared<StoredObjects>(slow);
  std::vector<ObjectName> names;
  for (const std::string& key : keys) names.push_back({objects, key});
  const auto found = ask_for_stamps(names, {}, {}).value();
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(found[i], i != 77);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(ask_for_stamps(names, {}, stop.get_token()).error().code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace isocost
