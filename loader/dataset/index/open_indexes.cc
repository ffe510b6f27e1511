#include "loader/dataset/index/open_indexes.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/counted.h"
#include "base/mutex.h"
#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/index/internal/open_index.h"
#include "loader/dataset/index/maker_lock.h"
#include "loader/dataset/index/record_shard.h"  // IWYU pragma: keep (the type of `records`)

namespace isocost {
namespace fs = std::filesystem;
namespace {

constexpr const char* kIndexLock = "index.lock";

// Returns how many shards are indexed at once. Workers for plain shards read a little here and
// there, and wait for a disk or a network, so more of them than cores help. A compressed shard
// takes a core, and memory for its inflated bytes.
std::size_t workers_for(std::span<const ShardPlace> shards, std::size_t wanted) {
  constexpr std::size_t kLeastOfPlain = 8;
  std::size_t workers = wanted;
  if (wanted == 0) {
    workers = std::max(std::thread::hardware_concurrency(), 1U);
    const bool has_compressed = std::ranges::any_of(
        shards, [](const ShardPlace& shard) { return names_compressed_shard(shard.name); });
    if (!has_compressed) workers = std::max(workers, kLeastOfPlain);
  }
  return std::min(workers, shards.size());
}

// Takes the lock of the directory in which indexes are written (maker_lock.h), once for all
// workers. Internally synchronised.
class IndexMaker {
 public:
  IndexMaker(std::span<const ShardPlace> shards, const IndexingOptions& options)
      : shards_(shards), options_(options) {}

  // Blocks until this process makes the indexes. One thread waits for the lock, and the others for
  // that thread. If it fails, the next one tries. Errors: kCancelled.
  Status become(const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_);
  // Tells those that wait for the lock how far the work is, if this process has it.
  void tell(std::string_view progress) ISOCOST_EXCLUDES(mutex_);

 private:
  // Lets the next thread in, however this one ends.
  class Becoming {
   public:
    explicit Becoming(IndexMaker& maker) : maker_(maker) {}
    Becoming(const Becoming&) = delete;
    Becoming& operator=(const Becoming&) = delete;
    ~Becoming() { maker_.end_becoming(); }

   private:
    IndexMaker& maker_;
  };

  std::string what() const { return "the indexes of " + shards_.front().root->directory.string(); }
  Result<std::unique_ptr<MakerLock>> wait_for_lock(const std::stop_token& stop) const;
  void end_becoming() ISOCOST_EXCLUDES(mutex_);

  const std::span<const ShardPlace> shards_;
  const IndexingOptions& options_;
  Mutex mutex_;
  ConditionVariable became_;
  bool is_becoming_ ISOCOST_GUARDED_BY(mutex_) = false;  // whether a thread waits for the lock
  bool is_maker_ ISOCOST_GUARDED_BY(mutex_) = false;
  // Null: not yet, or nothing can be locked. Once set, it stays.
  std::unique_ptr<MakerLock> lock_ ISOCOST_GUARDED_BY(mutex_);
};

Status IndexMaker::become(const std::stop_token& stop) {
  {
    const MutexLock lock(mutex_);
    const bool is_free =
        became_.wait(mutex_, stop, [this]() ISOCOST_REQUIRES(mutex_) { return !is_becoming_; });
    if (is_maker_) return {};
    if (!is_free) return Error(ErrorCode::kCancelled, "stopped while waiting to make " + what());
    is_becoming_ = true;
  }
  // Without the mutex: the wait logs, and lasts for as long as another process works.
  const Becoming becoming(*this);
  ISOCOST_ASSIGN(auto taken, wait_for_lock(stop));
  const MutexLock lock(mutex_);
  lock_ = std::move(taken);
  is_maker_ = true;
  return {};
}

// Returns null if no directory can be written, and so nothing need be locked.
Result<std::unique_ptr<MakerLock>> IndexMaker::wait_for_lock(const std::stop_token& stop) const {
  for (const fs::path& directory : shards_.front().root->index_directories) {
    std::error_code ignored;
    fs::create_directories(directory, ignored);
    auto taken = MakerLockRequest(directory / kIndexLock, what(), options_.log).wait(stop);
    // An error of the file: indexes are not written here, either.
    if (taken || taken.error().code() != ErrorCode::kIo) return taken;
  }
  return nullptr;
}

void IndexMaker::end_becoming() {
  const MutexLock lock(mutex_);
  is_becoming_ = false;
  became_.notify_all();
}

void IndexMaker::tell(std::string_view progress) {
  MakerLock* taken = nullptr;
  {
    const MutexLock lock(mutex_);
    taken = lock_.get();
  }
  if (taken != nullptr) taken->tell(progress);
}

class Indexing {
 public:
  Indexing(std::span<const ShardPlace> shards, const IndexingOptions& options, const IndexUse& use)
      : shards_(shards), options_(options), use_(use), maker_(shards, options) {}

  Status run() &&;

 private:
  void work();
  Status use(std::size_t shard);
  void finish_one(const ShardPlace& shard);
  void fail(std::size_t shard, Error error) ISOCOST_EXCLUDES(mutex_);

  const std::span<const ShardPlace> shards_;
  const IndexingOptions& options_;
  const IndexUse& use_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::uint64_t> done_ = 0;
  Mutex mutex_;
  std::optional<Error> error_ ISOCOST_GUARDED_BY(mutex_);
  std::size_t failed_ ISOCOST_GUARDED_BY(mutex_) = 0;  // the shard of the error
  std::stop_source ended_;  // by options_.stop, or by a failure: nobody waits any more
  IndexMaker maker_;
};

Status Indexing::run() && {
  const std::size_t workers = workers_for(shards_, options_.workers);
  const std::stop_callback end(options_.stop, [this] { ended_.request_stop(); });
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < workers; ++i) threads.emplace_back([this] { work(); });
    work();
  }
  const MutexLock lock(mutex_);
  if (error_) return *std::move(error_);
  return {};
}

void Indexing::work() {
  for (std::size_t i = next_++; i < shards_.size(); i = next_++) {
    Status used = use(i);
    if (!used) {
      fail(i, std::move(used).error());
      return;
    }
  }
}

Status Indexing::use(std::size_t shard) {
  if (options_.stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while indexing");
  if (use_.is_known && use_.is_known(shard)) {
    ++done_;
    return {};
  }
  ISOCOST_ASSIGN(
      auto index,
      open_or_build_index({shards_[shard], options_.limits, options_.reading, options_.log,
                           options_.stop, [this] { return maker_.become(ended_.get_token()); }}));
  ISOCOST_TRY(use_.take(shard, std::move(index)));
  finish_one(shards_[shard]);
  return {};
}

void Indexing::finish_one(const ShardPlace& shard) {
  const std::uint64_t done = ++done_;
  maker_.tell(std::to_string(done) + " of " + counted(shards_.size(), "shard"));
  if (options_.progress) options_.progress(done, shards_.size(), shard.name);
}

// The error is kept before others are ended, whose errors only follow from it. Shards are begun in
// their order, so that one before this one may still fail.
void Indexing::fail(std::size_t shard, Error error) {
  next_ = shards_.size();
  {
    const MutexLock lock(mutex_);
    const bool is_first = !error_ || (shard < failed_ && error.code() != ErrorCode::kCancelled);
    if (is_first) {
      error_ = std::move(error);
      failed_ = shard;
    }
  }
  ended_.request_stop();
}

}  // namespace

Status for_each_index(std::span<const ShardPlace> shards, const IndexingOptions& options,
                      const IndexUse& use) {
  return Indexing(shards, options, use).run();
}

Result<std::vector<std::unique_ptr<const ShardIndex>>> open_indexes(
    std::span<const ShardPlace> shards, const IndexingOptions& options) {
  std::vector<std::unique_ptr<const ShardIndex>> indexes(shards.size());
  const auto take = [&](std::size_t shard, std::unique_ptr<const ShardIndex> index) {
    indexes[shard] = std::move(index);
    return Status();
  };
  ISOCOST_TRY(for_each_index(shards, options, {.take = take}));
  return indexes;
}

Result<IndexIdentity> identity_of(const ShardPlace& shard, const ProbeLimits& limits,
                                  const SampleReading& reading) {
  return identity_of({shard, limits, reading, {}});
}

Result<std::unique_ptr<const ShardIndex>> build_in_memory(const ShardPlace& shard,
                                                          const ProbeLimits& limits,
                                                          const SampleReading& reading) {
  if (shard.records && shard.records->kind() == ShardKind::kDirectory) {
    return Error(ErrorCode::kUnavailable,
                 shard.path().string() + ": its index is gone or of another job: start again");
  }
  ISOCOST_ASSIGN(auto index, build_index_in_memory({shard, limits, reading, {}}));
  if (shard.records) shard.records->file->close();
  return index;
}

}  // namespace isocost
