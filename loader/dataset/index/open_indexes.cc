#include "loader/dataset/index/open_indexes.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/counted.h"
#include "base/mutex.h"
#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/index/maker_lock.h"
#include "loader/dataset/index/open_index.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

constexpr const char* kIndexLock = "index.lock";

// Returns how many shards are indexed at once. Workers for plain shards read a little here and
// there, and wait for a disk or a network, so more of them than cores help. A compressed shard
// takes a core, and memory for its inflated bytes.
std::size_t workers_for(std::span<const fs::path> shards, std::size_t wanted) {
  constexpr std::size_t kLeastOfPlain = 8;
  std::size_t workers = wanted;
  if (wanted == 0) {
    workers = std::max(std::thread::hardware_concurrency(), 1U);
    const bool has_compressed = std::ranges::any_of(shards, [](const fs::path& shard) {
      return names_compressed_shard(shard.filename().string());
    });
    if (!has_compressed) workers = std::max(workers, kLeastOfPlain);
  }
  return std::min(workers, shards.size());
}

class Indexing {
 public:
  Indexing(std::span<const fs::path> shards, const IndexingOptions& options)
      : shards_(shards), options_(options), indexes_(shards.size()) {}

  Result<std::vector<std::unique_ptr<const ShardIndex>>> run() &&;

 private:
  void work();
  // Takes the lock of the directory in which indexes are written, or waits for it.
  Status become_maker() ISOCOST_EXCLUDES(maker_mutex_);
  void finish_one(const fs::path& shard) ISOCOST_EXCLUDES(maker_mutex_);
  void fail(Error error) ISOCOST_EXCLUDES(mutex_);

  const std::span<const fs::path> shards_;
  const IndexingOptions& options_;
  std::vector<std::unique_ptr<const ShardIndex>> indexes_;  // each is set by one worker
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::uint64_t> done_ = 0;
  Mutex mutex_;
  std::optional<Error> error_ ISOCOST_GUARDED_BY(mutex_);
  // Held while the lock is waited for, so that one thread waits, and the others wait for it.
  Mutex maker_mutex_;
  bool is_maker_ ISOCOST_GUARDED_BY(maker_mutex_) = false;
  std::unique_ptr<MakerLock> maker_
      ISOCOST_GUARDED_BY(maker_mutex_);  // null: nothing can be locked
};

Result<std::vector<std::unique_ptr<const ShardIndex>>> Indexing::run() && {
  const std::size_t workers = workers_for(shards_, options_.workers);
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
        open_or_build_index({shards_[i], options_.directories, options_.limits, options_.reading,
                             options_.log, options_.stop, [this] { return become_maker(); }});
    if (!index) {
      fail(std::move(index).error());
      return;
    }
    indexes_[i] = *std::move(index);
    finish_one(shards_[i]);
  }
}

Status Indexing::become_maker() {
  const MutexLock lock(maker_mutex_);
  if (is_maker_) return {};
  const std::string what = "the indexes of " + shards_.front().parent_path().string();
  for (const fs::path& directory : options_.directories) {
    std::error_code ignored;
    fs::create_directories(directory, ignored);
    auto taken = MakerLockRequest(directory / kIndexLock, what, options_.log).wait(options_.stop);
    if (!taken && taken.error().code() != ErrorCode::kIo) return std::move(taken).error();
    if (!taken) continue;  // indexes are not written here, either
    maker_ = *std::move(taken);
    break;
  }
  is_maker_ = true;
  return {};
}

void Indexing::finish_one(const fs::path& shard) {
  const std::uint64_t done = ++done_;
  {
    const MutexLock lock(maker_mutex_);
    if (maker_ != nullptr) {
      maker_->tell(std::to_string(done) + " of " + counted(shards_.size(), "shard"));
    }
  }
  if (options_.progress) options_.progress(done, shards_.size(), shard.filename().string());
}

void Indexing::fail(Error error) {
  next_ = shards_.size();
  const MutexLock lock(mutex_);
  if (!error_) error_ = std::move(error);
}

}  // namespace

Result<std::vector<std::unique_ptr<const ShardIndex>>> open_indexes(
    std::span<const fs::path> shards, const IndexingOptions& options) {
  return Indexing(shards, options).run();
}

}  // namespace isocost
