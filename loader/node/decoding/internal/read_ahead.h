#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "base/executor/executor.h"
#include "loader/dataset/dataset.h"
#include "loader/node/decoding/internal/sample_read.h"
#include "loader/node/decoding/internal/shards_ahead.h"

namespace isocost {

/// Reads the samples that come next, so that workers do not wait for a disk or a network. Opens
/// shards for it on threads of its own. One thread at a time may call it.
///
/// It asks disks for up to 32 MiB, 64 samples, or a quarter as many samples as shards stay open,
/// two at the decoding of one. Samples on servers take long, and memory: up to 2,048 are asked for,
/// sixteen at the decoding of one, while those that are not decoded yet have fewer bytes than half
/// of the memory for them, so that one sample may exceed it. The other half is for samples that are
/// decoded again, and so are needed a second time.
class ReadAhead {
 public:
  /// `threads` may outlive this object; reads that have not begun by its end are left out. `memory`
  /// is the limit of bytes from servers. `window_samples`: samples ahead whose shards a cache is to
  /// have whole; 0: none.
  ReadAhead(const Dataset& dataset, Executor& threads, std::int64_t memory,
            std::size_t window_samples = 0);
  ~ReadAhead() { closing_.request_stop(); }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Returns the sample that is decoded `after` samples after the next one; nothing if none is
  /// known yet.
  using Upcoming = ShardsAhead::Upcoming;

  /// Call this when the decoding of a sample begins, with what comes after it. Returns the read of
  /// a sample on a server, which may not have begun, and null for one on a disk. Asks only for a
  /// few more samples, so it returns soon. Each sample is asked for once as long as they come in
  /// the announced order.
  std::shared_ptr<SampleRead> decoding_begins(SampleId id, const Upcoming& upcoming);

  /// Counts what was read of a sample as bytes that it keeps until it is decoded again, a quarter
  /// of the memory at most. Returns false, and counts nothing, if there is no room. Thread-safe for
  /// different reads.
  bool keep_if_room(SampleRead& read) const;
  /// Begins to read a sample on a server that is to be decoded again soon, and has kept nothing, in
  /// the quarter of the memory that only such samples may take. Returns null if there is no room,
  /// and for a sample on a disk. Thread-safe.
  std::shared_ptr<SampleRead> read_again(SampleId id) const;

 private:
  struct Asked {
    SampleId id = 0;
    std::int64_t disk_bytes = 0;       // asked of a disk
    std::shared_ptr<SampleRead> read;  // from a server; else null
  };
  std::shared_ptr<SampleRead> leave(SampleId id);
  bool has_room() const;
  void ask(SampleId id);
  void ask_disk_within_reach();
  using Total = std::shared_ptr<std::atomic<std::int64_t>>;
  std::shared_ptr<SampleRead> read_of(SampleId id, const Total& total) const;
  void submit(const std::shared_ptr<SampleRead>& read) const;

  const Dataset& dataset_;
  Executor& threads_;
  const std::size_t most_on_disk_;
  const std::int64_t memory_;
  std::deque<Asked> asked_;       // samples whose decoding has not begun, in their order
  std::size_t within_reach_ = 0;  // of those, from the first on, whose disks were asked
  std::int64_t disk_bytes_ = 0;   // total of `asked_`
  // Bytes of samples on servers that are not decoded yet, and of those that are decoded again.
  const Total ahead_bytes_ = std::make_shared<std::atomic<std::int64_t>>(0);
  const Total again_bytes_ = std::make_shared<std::atomic<std::int64_t>>(0);
  std::stop_source closing_;
  std::optional<ShardsAhead> shards_ahead_;
};

}  // namespace isocost
