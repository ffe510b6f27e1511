// A store behind a cache, over a store that answers after a while.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/scratch_directory.h"
#include "loader/dataset/stores/cache/cache_directory.h"
#include "tests/loader/dataset/stores/cache/cached_reads.h"
#include "tests/support/log_lines.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::FieldsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class Cache : public testing::Test {
 protected:
  void open() { open({}); }
  void open(ObjectCacheOptions options) {
    store_ = nullptr;
    options.directory = directory();
    options.log = log_.sink();
    cache_ = ObjectCache::open(options).value();
    store_ = create_cached_store(slow_, cache_);
  }
  fs::path directory() const { return scratch_ / "cache"; }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    for (const auto& file : fs::directory_iterator(directory())) {
      if (file.path().extension() == ".entry") found.push_back(file.path());
    }
    return found;
  }
  std::string read(const std::string& key, ByteRange range) {
    auto bytes = isocost::read(*store_, key, range);
    EXPECT_TRUE(bytes) << bytes.error().to_string();
    return bytes.value_or("");
  }

  const ScratchDirectory scratch_ = ScratchDirectory::create("cache").value();
  LogLines log_;
  std::shared_ptr<SlowStore> slow_ = std::make_shared<SlowStore>();
  std::shared_ptr<ObjectCache> cache_;
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(Cache, ARangeIsAskedForOnceAlsoByTheNextProcess) {
  const std::string bytes = bytes_of(10'000);
  slow_->put("a.tar", bytes);
  for (int process = 0; process < 2; ++process) {
    open();
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(read("a.tar", {100, 5000}), part_of(bytes, {100, 5000}));
      EXPECT_EQ(read("a.tar", {200, 300}), part_of(bytes, {200, 300}));
    }
  }
  EXPECT_THAT(slow_->reads(), ElementsAre(FieldsAre(100, 5000)));
  EXPECT_EQ(cache_->counts().hits, 4);
  EXPECT_EQ(cache_->counts().misses, 0);
}

TEST_F(Cache, OfARangeThatIsHeldInPartAllIsAskedFor) {
  const std::string bytes = bytes_of(5 * kMiB);
  slow_->put("a.tar", bytes);
  open();
  read("a.tar", {0, 100});
  EXPECT_EQ(read("a.tar", {50, 200}), part_of(bytes, {50, 200}));
  EXPECT_EQ(read("a.tar", {0, 200}), part_of(bytes, {0, 200}));  // both hold a part
  EXPECT_THAT(slow_->reads(), ElementsAre(FieldsAre(0, 100), FieldsAre(50, 200)));
  EXPECT_EQ(read("a.tar", {1000, 4 * kMiB}), part_of(bytes, {1000, 4 * kMiB}));
  EXPECT_EQ(read("a.tar", {2 * kMiB - 5, 2 * kMiB + 5}),
            part_of(bytes, {2 * kMiB - 5, 2 * kMiB + 5}));
  EXPECT_THAT(slow_->reads(), SizeIs(3));
}

TEST_F(Cache, PiecesAreFetchedWholeAndOnlyTheBlocksThatAreMissing) {
  const std::string bytes = bytes_of(35 * kMiB + 500);
  slow_->put("a.tar", bytes);
  open();
  EXPECT_EQ(read("a.tar", {33 * kMiB, 34 * kMiB}), part_of(bytes, {33 * kMiB, 34 * kMiB}));
  cache_->keep_pieces();
  EXPECT_EQ(read("a.tar", {100, 200}), part_of(bytes, {100, 200}));
  EXPECT_EQ(read("a.tar", {9 * kMiB - 10, 9 * kMiB}), part_of(bytes, {9 * kMiB - 10, 9 * kMiB}));
  EXPECT_THAT(slow_->reads(),
              ElementsAre(FieldsAre(33 * kMiB, 34 * kMiB), FieldsAre(0, 16 * kMiB)));
  const ByteRange across{16 * kMiB - 5, 16 * kMiB + 5};
  EXPECT_EQ(read("a.tar", across), part_of(bytes, across));
  EXPECT_THAT(slow_->reads(), SizeIs(3));
  EXPECT_THAT(slow_->reads().back(), FieldsAre(16 * kMiB, 32 * kMiB));
  EXPECT_EQ(read("a.tar", {34 * kMiB - 5, 34 * kMiB + 9}),
            part_of(bytes, {34 * kMiB - 5, 34 * kMiB + 9}));
  EXPECT_THAT(slow_->reads().back(), FieldsAre(32 * kMiB, 35 * kMiB + 500));
  EXPECT_EQ(read("a.tar", {0, std::ssize(bytes)}), bytes);
  EXPECT_THAT(slow_->reads(), SizeIs(4));
}

TEST_F(Cache, NeighboursInAPieceThatAreReadAtOnceAreOneFetch) {
  slow_ = std::make_shared<SlowStore>(milliseconds(50));
  const std::string bytes = bytes_of(3 * kMiB);
  slow_->put("a.tar", bytes);
  open();
  cache_->keep_pieces();
  std::vector<std::pair<ByteRange, std::future<Result<std::string>>>> begun;
  for (std::int64_t at = 0; at + 70'000 <= 3 * kMiB; at += 70'000) {
    const ByteRange range{at, at + 70'000};
    begun.emplace_back(range, begin_read(*store_, "a.tar", range));
  }
  for (auto& [range, bytes_read] : begun) {
    EXPECT_EQ(bytes_read.get().value(), part_of(bytes, range));
  }
  EXPECT_THAT(slow_->reads(), ElementsAre(FieldsAre(0, 3 * kMiB)));
}

TEST_F(Cache, FewPiecesAreUnderWayAndReadsGoBeforeWhatIsOnlyHeld) {
  slow_ = std::make_shared<SlowStore>(milliseconds(500));
  const std::string piece(16 * kMiB, 'x');
  for (int i = 0; i < 10; ++i) slow_->put("held-" + std::to_string(i), piece);
  slow_->put("read", bytes_of(1000));
  open();
  cache_->keep_pieces();
  std::vector<std::future<Result<std::string>>> held;
  for (int i = 0; i < 10; ++i) held.push_back(begin_hold(*store_, "held-" + std::to_string(i)));
  while (slow_->reads().size() < 8) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_THAT(slow_->reads(), SizeIs(8));
  EXPECT_EQ(read("read", {0, 100}), bytes_of(100));
  for (auto& ended : held) EXPECT_EQ(ended.get().value(), "");
  ASSERT_THAT(slow_->reads(), SizeIs(11));
  EXPECT_THAT(slow_->reads()[8], FieldsAre(0, 1000));
  EXPECT_EQ(read("held-9", {5, 9}), "xxxx");
  EXPECT_THAT(slow_->reads(), SizeIs(11));
  EXPECT_EQ(begin_hold(*store_, "held-9").get().value(), "");
  EXPECT_THAT(slow_->reads(), SizeIs(11));
}

TEST_F(Cache, WhatAnotherProcessKeptIsNotFetchedToBeHeld) {
  slow_->put("a.tar", bytes_of(20 * kMiB));
  for (int process = 0; process < 2; ++process) {
    open();
    cache_->keep_pieces();
    EXPECT_EQ(begin_hold(*store_, "a.tar").get().value(), "");
    EXPECT_THAT(slow_->reads(), SizeIs(2));
  }
  // Its entry was opened before the other one kept another piece.
  slow_->put("b.tar", bytes_of(20 * kMiB));
  EXPECT_EQ(read("b.tar", {0, 10}), bytes_of(10));
  const auto other_cache = ObjectCache::open({.directory = directory()}).value();
  other_cache->keep_pieces();
  const auto other = create_cached_store(slow_, other_cache);
  EXPECT_EQ(begin_hold(*other, "b.tar").get().value(), "");
  EXPECT_THAT(slow_->reads(), SizeIs(4));
  EXPECT_EQ(begin_hold(*store_, "b.tar").get().value(), "");
  EXPECT_THAT(slow_->reads(), SizeIs(4));
}

TEST_F(Cache, HeldObjectsCountAsUsed) {
  slow_->put("a.tar", bytes_of(1000));
  open();
  cache_->keep_pieces();
  begin_hold(*store_, "a.tar").wait();
  const fs::path entry = entries().front();
  const auto long_ago = fs::last_write_time(entry) - std::chrono::hours(1);
  fs::last_write_time(entry, long_ago);
  begin_hold(*store_, "a.tar").wait();
  EXPECT_GT(fs::last_write_time(entry), long_ago + std::chrono::minutes(59));
}

TEST_F(Cache, StoresShareTheRoomForPieces) {
  slow_ = std::make_shared<SlowStore>(std::chrono::hours(1));
  const auto other_slow = std::make_shared<SlowStore>(std::chrono::hours(1));
  const std::string piece(16 * kMiB, 'x');
  open();
  cache_->keep_pieces();
  auto other = create_cached_store(other_slow, cache_);
  std::vector<std::future<Result<std::string>>> held;
  for (int i = 0; i < 6; ++i) {
    const std::string key = "held-" + std::to_string(i);
    slow_->put(key, piece);
    other_slow->put(key, piece);
    held.push_back(begin_hold(*store_, key));
    held.push_back(begin_hold(*other, key));
  }
  while (slow_->reads().size() + other_slow->reads().size() < 8) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(slow_->reads().size() + other_slow->reads().size(), 8U);
  store_ = nullptr;
  other = nullptr;
  for (auto& ended : held) EXPECT_EQ(ended.get().error().code(), ErrorCode::kCancelled);
}

TEST_F(Cache, AStoreEndsThoughItsPiecesWaitForThoseOfAnother) {
  slow_ = std::make_shared<SlowStore>(std::chrono::hours(1));
  const std::string piece(16 * kMiB, 'x');
  open();
  cache_->keep_pieces();
  std::vector<std::future<Result<std::string>>> held;
  for (int i = 0; i < 8; ++i) {
    const std::string key = "held-" + std::to_string(i);
    slow_->put(key, piece);
    held.push_back(begin_hold(*store_, key));
  }
  while (slow_->reads().size() < 8) std::this_thread::sleep_for(milliseconds(1));
  const auto other_slow = std::make_shared<SlowStore>();
  other_slow->put("other", piece);
  auto other = create_cached_store(other_slow, cache_);
  auto waiting = begin_hold(*other, "other");
  std::this_thread::sleep_for(milliseconds(20));
  other = nullptr;
  EXPECT_EQ(waiting.get().error().code(), ErrorCode::kCancelled);
  EXPECT_THAT(other_slow->reads(), IsEmpty());
  store_ = nullptr;
  for (auto& ended : held) EXPECT_EQ(ended.get().error().code(), ErrorCode::kCancelled);
}

TEST_F(Cache, WithoutPiecesNothingIsHeld) {
  slow_->put("a.tar", bytes_of(1000));
  open();
  EXPECT_EQ(begin_hold(*store_, "a.tar").get().value(), "");
  EXPECT_THAT(slow_->reads(), IsEmpty());
}

TEST_F(Cache, APieceThatWaitsForOthersEndsWithItsReadsStop) {
  slow_ = std::make_shared<SlowStore>(std::chrono::hours(1));
  const std::string piece(16 * kMiB, 'x');
  for (int i = 0; i < 10; ++i) slow_->put("held-" + std::to_string(i), piece);
  open();
  cache_->keep_pieces();
  std::vector<std::future<Result<std::string>>> held;
  for (int i = 0; i < 9; ++i) held.push_back(begin_hold(*store_, "held-" + std::to_string(i)));
  while (slow_->reads().size() < 8) std::this_thread::sleep_for(milliseconds(1));
  std::stop_source stop;
  auto stopped = begin_read(*store_, "held-9", {0, 1000}, stop.get_token());
  std::this_thread::sleep_for(milliseconds(20));
  stop.request_stop();
  EXPECT_EQ(stopped.get().error().code(), ErrorCode::kCancelled);
  EXPECT_THAT(slow_->reads(), SizeIs(8));
  store_ = nullptr;
  for (auto& ended : held) EXPECT_EQ(ended.get().error().code(), ErrorCode::kCancelled);
}

TEST_F(Cache, AnotherVersionIsAnotherEntry) {
  slow_->put("a.tar", bytes_of(100));
  open();
  read("a.tar", {0, 50});
  slow_->put("a.tar", bytes_of(100, 1));
  EXPECT_EQ(read("a.tar", {0, 50}), bytes_of(50, 1));
  EXPECT_THAT(slow_->reads(), SizeIs(2));
  EXPECT_THAT(entries(), SizeIs(2));
}

TEST_F(Cache, AVersionThatNothingTellsIsNotKept) {
  slow_->put("a.tar", bytes_of(100));
  open();
  std::promise<Result<std::string>> answered;
  store_->read("a.tar", {100, "", 0}, {0, 50}, {},
               [&](Result<std::string> bytes) { answered.set_value(std::move(bytes)); });
  answered.get_future().wait();
  EXPECT_THAT(slow_->reads(), SizeIs(1));
  EXPECT_EQ(cache_->counts().misses, 0);
  EXPECT_THAT(entries(), IsEmpty());
}

TEST_F(Cache, DamagedBytesAreFetchedAgainWithOneWarning) {
  const std::string bytes = bytes_of(10'000);
  slow_->put("a.tar", bytes);
  open();
  read("a.tar", {0, 1000});
  read("a.tar", {5000, 6000});
  read("a.tar", {7000, 8000});
  {
    std::fstream file(entries().front(), std::ios::in | std::ios::out | std::ios::binary);
    for (const int at : {10, 5500}) {
      file.seekp(4096 + at);
      file.put('#');
    }
  }
  open();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(read("a.tar", {0, 1000}), part_of(bytes, {0, 1000}));
    EXPECT_EQ(read("a.tar", {5400, 5600}), part_of(bytes, {5400, 5600}));
    EXPECT_EQ(read("a.tar", {7000, 8000}), part_of(bytes, {7000, 8000}));
  }
  EXPECT_THAT(slow_->reads(), SizeIs(5));
  EXPECT_EQ(cache_->counts().damaged, 2);
  EXPECT_THAT(log_.lines(), ElementsAre(AllOf(HasSubstr("bytes 0 to 1000 of slow://a.tar"),
                                              HasSubstr("dropped and fetched again"))));
  EXPECT_EQ(verify_cache(directory(), [](std::string_view) {}).value().damaged, 0);
}

TEST_F(Cache, AnEntryThatIsCutOffIsMadeAgain) {
  slow_->put("a.tar", bytes_of(100'000));
  open();
  read("a.tar", {0, 1000});
  fs::resize_file(entries().front(), 5000);
  open();
  EXPECT_EQ(read("a.tar", {0, 1000}), bytes_of(1000));
  EXPECT_EQ(read("a.tar", {0, 1000}), bytes_of(1000));
  EXPECT_THAT(slow_->reads(), SizeIs(2));
  EXPECT_THAT(log_.lines(), SizeIs(1));
}

TEST_F(Cache, ARecordThatWasCutOffHidesNoneBehindIt) {
  slow_->put("a.tar", bytes_of(1000));
  open();
  read("a.tar", {0, 100});
  std::ofstream(entries().front(), std::ios::app | std::ios::binary) << "dc";
  read("a.tar", {200, 300});
  open();
  EXPECT_EQ(read("a.tar", {0, 100}), bytes_of(100));
  EXPECT_EQ(read("a.tar", {200, 300}), part_of(bytes_of(1000), {200, 300}));
  EXPECT_THAT(slow_->reads(), SizeIs(2));
}

TEST_F(Cache, EntriesThatWereUsedLeastRecentlyGoFirst) {
  for (const char* key : {"a", "b", "c", "d"}) slow_->put(key, bytes_of(300 << 10));
  open({.max_bytes = kMiB});
  const auto use = [&](const std::string& key) {
    EXPECT_EQ(read(key, {0, 300 << 10}), bytes_of(300 << 10));
    std::this_thread::sleep_for(milliseconds(20));  // file times have some milliseconds
  };
  for (const char* key : {"a", "b", "c", "a", "d"}) use(key);
  EXPECT_EQ(slow_->reads().size(), 4U);
  EXPECT_EQ(cache_->counts().evicted, 1);
  use("a");  // held, since it was used after b
  use("c");
  EXPECT_EQ(slow_->reads().size(), 4U);
  use("b");
  EXPECT_EQ(slow_->reads().size(), 5U);
}

TEST_F(Cache, TheSizeIsKeptToAndAllIsRead) {
  const std::string bytes = bytes_of(400'000);
  for (int i = 0; i < 20; ++i) slow_->put(std::to_string(i), bytes);
  open({.max_bytes = 2 * kMiB});
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 200; ++i) {
      const std::int64_t at = i * 7919 % 350'000;
      EXPECT_EQ(read(std::to_string(i % 20), {at, at + 50'000}), part_of(bytes, {at, at + 50'000}));
      std::int64_t held = 0;
      const auto entries = list_cache(directory()).value();
      for (const CachedObjectInfo& entry : entries) {
        held += entry.disk_bytes;
      }
      ASSERT_LE(held, 2 * kMiB);
    }
  }
  EXPECT_GT(cache_->counts().evicted, 0);
}

TEST_F(Cache, AnEntryThatAnotherProcessReadsStays) {
  for (const char* key : {"a", "b", "c"}) slow_->put(key, bytes_of(400 << 10));
  open({.max_bytes = kMiB});
  read("a", {0, 400 << 10});
  // The lock of a process that reads it.
  const FileDescriptor reader(::open(entries().front().c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(reader.get(), LOCK_SH), 0);
  std::this_thread::sleep_for(milliseconds(20));
  read("b", {0, 400 << 10});
  read("c", {0, 400 << 10});
  EXPECT_EQ(cache_->counts().evicted, 1);
  read("a", {0, 400 << 10});
  EXPECT_THAT(slow_->reads(), SizeIs(3));
}

TEST_F(Cache, AnObjectThatDoesNotFitIsReadAndKeptInPart) {
  const std::string bytes = bytes_of(4 * kMiB);
  slow_->put("a", bytes);
  open({.max_bytes = kMiB});
  EXPECT_EQ(read("a", {0, 4 * kMiB}), bytes);
  for (std::int64_t at = 0; at < 4 * kMiB; at += 100'000) {
    const ByteRange range{at, std::min(at + 100'000, 4 * kMiB)};
    EXPECT_EQ(read("a", range), part_of(bytes, range));
  }
  EXPECT_GT(list_cache(directory()).value().front().held_bytes, kMiB / 2);
  EXPECT_LE(list_cache(directory()).value().front().disk_bytes, kMiB);
  EXPECT_THAT(log_.lines(), IsEmpty());
}

TEST_F(Cache, ReadsOfARangeAtOnceAreOneFetch) {
  slow_ = std::make_shared<SlowStore>(milliseconds(50));
  slow_->put("a.tar", bytes_of(1000));
  open();
  std::vector<std::future<Result<std::string>>> begun;
  begun.push_back(begin_read(*store_, "a.tar", {0, 1000}));
  while (slow_->reads().empty()) std::this_thread::sleep_for(milliseconds(1));
  for (int i = 0; i < 8; ++i) begun.push_back(begin_read(*store_, "a.tar", {i, 1000 - i}));
  for (int i = 0; i < 9; ++i) {
    const ByteRange range = i == 0 ? ByteRange{0, 1000} : ByteRange{i - 1, 1000 - (i - 1)};
    EXPECT_EQ(begun[static_cast<std::size_t>(i)].get().value(), part_of(bytes_of(1000), range));
  }
  EXPECT_THAT(slow_->reads(), SizeIs(1));
}

TEST_F(Cache, AFailureIsToldToAllAndTheNextReadAsksAgain) {
  slow_->put("a.tar", bytes_of(1000));
  open();
  slow_->refuse_reads(1);
  EXPECT_EQ(isocost::read(*store_, "a.tar", {0, 10}).error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(read("a.tar", {0, 10}), bytes_of(10));
  EXPECT_THAT(log_.lines(), IsEmpty());
}

TEST_F(Cache, AStopEndsAReadAndNotThatOfAnother) {
  slow_ = std::make_shared<SlowStore>(milliseconds(100));
  slow_->put("a.tar", bytes_of(1000));
  open();
  std::stop_source stop;
  auto stopped = begin_read(*store_, "a.tar", {0, 1000}, stop.get_token());
  auto other = begin_read(*store_, "a.tar", {0, 1000});
  stop.request_stop();
  EXPECT_EQ(other.get().value(), bytes_of(1000));
  stopped.wait();
}

TEST_F(Cache, AStoppedReadDoesNotWaitForAFetchThatAnotherWants) {
  slow_ = std::make_shared<SlowStore>(std::chrono::hours(1));
  slow_->put("a.tar", bytes_of(1000));
  open();
  auto other = begin_read(*store_, "a.tar", {0, 1000});
  while (slow_->reads().empty()) std::this_thread::sleep_for(milliseconds(1));
  std::stop_source stop;
  auto stopped = begin_read(*store_, "a.tar", {0, 1000}, stop.get_token());
  std::this_thread::sleep_for(milliseconds(20));
  stop.request_stop();
  EXPECT_EQ(stopped.get().error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(other.wait_for(milliseconds(0)), std::future_status::timeout);
  store_ = nullptr;
  EXPECT_EQ(other.get().error().code(), ErrorCode::kCancelled);
}

TEST_F(Cache, AStopAndTheEndEndReadsThatTakeLong) {
  slow_ = std::make_shared<SlowStore>(std::chrono::hours(1));
  slow_->put("a.tar", bytes_of(4 * kMiB));
  open();
  cache_->keep_pieces();
  std::stop_source stop;
  auto stopped = begin_read(*store_, "a.tar", {0, 1000}, stop.get_token());
  stop.request_stop();
  EXPECT_EQ(stopped.get().error().code(), ErrorCode::kCancelled);
  std::vector<std::future<Result<std::string>>> begun;
  for (int i = 0; i < 20; ++i) {
    begun.push_back(begin_read(*store_, "a.tar", {i * 1000, 2 * kMiB + i}));
  }
  store_ = nullptr;
  for (auto& ended : begun) EXPECT_EQ(ended.get().error().code(), ErrorCode::kCancelled);
}

TEST_F(Cache, ADirectoryThatIsDeletedIsMadeAgain) {
  for (const char* key : {"a", "b"}) slow_->put(key, bytes_of(1000));
  open();
  read("a", {0, 100});
  fs::remove_all(directory());
  EXPECT_EQ(read("a", {0, 100}), bytes_of(100));
  EXPECT_EQ(read("a", {200, 300}), part_of(bytes_of(1000), {200, 300}));
  EXPECT_EQ(read("b", {0, 100}), bytes_of(100));
  EXPECT_EQ(read("b", {0, 100}), bytes_of(100));
  EXPECT_THAT(entries(), SizeIs(2));
  EXPECT_THAT(log_.lines(), IsEmpty());
  EXPECT_LE(slow_->reads().size(), 4U);
}

TEST_F(Cache, FilesAreItsUsersAlone) {
  slow_->put("a", bytes_of(1000));
  open();
  read("a", {0, 100});
  struct stat status{};
  ASSERT_EQ(::stat(directory().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  for (const auto& file : fs::directory_iterator(directory())) {
    ASSERT_EQ(::stat(file.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U) << file.path();
  }
}

TEST_F(Cache, IsListedVerifiedAndRemoved) {
  for (const char* key : {"train/a", "train/b", "valid/a"}) slow_->put(key, bytes_of(10'000));
  open();
  for (const char* key : {"train/a", "train/b", "valid/a"}) {
    read(key, {0, 1000});
    read(key, {500, 2000});
    std::this_thread::sleep_for(milliseconds(20));
  }
  std::vector<CachedObjectInfo> listed = list_cache(directory()).value();
  ASSERT_THAT(listed, SizeIs(3));
  EXPECT_EQ(listed.front().object, "slow://valid/a");
  EXPECT_EQ(listed.front().held_bytes, 2000);
  EXPECT_EQ(listed.front().bytes, 10'000);
  EXPECT_GT(listed.front().disk_bytes, 2000);
  EXPECT_EQ(verify_cache(directory(), [](std::string_view) {}).value().damaged, 0);
  EXPECT_EQ(list_cache(directory()).value().front().object, "slow://valid/a");  // that was no use
  std::fstream(entries().front(), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(4096 + 700)
      .put('#');
  std::vector<std::string> damage;
  const auto check = [&] {
    return verify_cache(directory(), [&](std::string_view what) { damage.emplace_back(what); })
        .value();
  };
  const CacheCheck first = check();
  EXPECT_EQ(first.entries, 3);
  EXPECT_EQ(first.ranges, 6);
  EXPECT_EQ(first.damaged, 2);  // two ranges have the byte
  EXPECT_THAT(damage, SizeIs(2));
  const CacheCheck second = check();
  EXPECT_EQ(second.ranges, 4);
  EXPECT_EQ(second.damaged, 0);
  EXPECT_EQ(remove_cached(directory(), "slow://train/").value().entries, 2);
  EXPECT_EQ(remove_cached(directory(), "").value().entries, 1);
  EXPECT_THAT(list_cache(directory()).value(), IsEmpty());
}

}  // namespace
}  // namespace isocost
