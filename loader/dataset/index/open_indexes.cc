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
  Indexing(std::span<const ShardPlace> shards, const IndexingOptions& options)
      : shards_(shards), options_(options), indexes_(shards.size()), maker_(shards, options) {}

  Result<std::vector<std::unique_ptr<const ShardIndex>>> run() &&;

 private:
  void work();
  void finish_one(const ShardPlace& shard);
  void fail(Error error) ISOCOST_EXCLUDES(mutex_);

  const std::span<const ShardPlace> shards_;
  const IndexingOptions& options_;
  std::vector<std::unique_ptr<const ShardIndex>> indexes_;  // each is set by one worker
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::uint64_t> done_ = 0;
  Mutex mutex_;
  std::optional<Error> error_ ISOCOST_GUARDED_BY(mutex_);
  std::stop_source ended_;  // by options_.stop, or by a failure: nobody waits any more
  IndexMaker maker_;
};

Result<std::vector<std::unique_ptr<const ShardIndex>>> Indexing::run() && {
  const std::size_t workers = workers_for(shards_, options_.workers);
  const std::stop_callback end(options_.stop, [this] { ended_.request_stop(); });
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < workers; ++i) threads.emplace_back([this] { work(); });
    work();
  }
  const MutexLock lock(mutex_);
  if (error_) return *std::move(error_);
  return std::move(indexes_);
}

void Indexing::work() {
  for (std::size_t i = next_++; i < shards_.size(); i = next_++) {
    auto index =
        open_or_build_index({shards_[i], options_.limits, options_.reading, options_.log,
                             options_.stop, [this] { return maker_.become(ended_.get_token()); }});
    if (!index) {
      fail(std::move(index).error());
      return;
    }
    indexes_[i] = *std::move(index);
    finish_one(shards_[i]);
  }
}

void Indexing::finish_one(const ShardPlace& shard) {
  const std::uint64_t done = ++done_;
  maker_.tell(std::to_string(done) + " of " + counted(shards_.size(), "shard"));
  if (options_.progress) options_.progress(done, shards_.size(), shard.name);
}

// The error is kept before others are ended, whose errors only follow from it.
void Indexing::fail(Error error) {
  next_ = shards_.size();
  {
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  ended_.request_stop();
}

}  // namespace

Result<std::vector<std::unique_ptr<const ShardIndex>>> open_indexes(
    std::span<const ShardPlace> shards, const IndexingOptions& options) {
  return Indexing(shards, options).run();
}

}  // namespace isocost
