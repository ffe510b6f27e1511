#pragma once

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

namespace isocost {

/// How much is read ahead.
struct ReadAheadLimits {
  std::size_t samples = 0;
  /// A sample is begun while those before it have fewer bytes, so that one sample may exceed it.
  std::int64_t bytes = 0;
  int at_once = 0;  ///< Most samples that are begun at the decoding of one.

  /// Returns those of a data set. `memory`: the bytes that samples which are read from servers may
  /// take before they are decoded.
  static ReadAheadLimits of(const Dataset& dataset, std::int64_t memory);
};

/// Reads the samples that come next, so that workers do not wait for a disk or a network. Opens
/// shards for it on threads of its own. One thread at a time may call it.
class ReadAhead {
 public:
  /// `threads` may outlive this object; reads that have not begun by its end are left out.
  ReadAhead(const Dataset& dataset, Executor& threads, const ReadAheadLimits& limits);
  ~ReadAhead() { closing_.request_stop(); }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Returns the sample that is decoded `after` samples after the next one; nothing if none is
  /// known yet.
  using Upcoming = std::function<std::optional<SampleId>(std::size_t after)>;

  /// Call this when the decoding of a sample begins, with what comes after it. Returns the read of
  /// the sample, which may not have begun. Asks only for a few more samples, so it returns soon.
  /// Each sample is asked for once as long as they come in the announced order.
  std::shared_ptr<SampleRead> decoding_begins(SampleId id, const Upcoming& upcoming);

 private:
  struct Asked {
    SampleId id;
    std::int64_t bytes;
    std::shared_ptr<SampleRead> read;
  };
  std::shared_ptr<SampleRead> leave(SampleId id);
  void ask(SampleId id);

  const Dataset& dataset_;
  Executor& threads_;
  const ReadAheadLimits limits_;
  std::deque<Asked> asked_;  // samples whose decoding has not begun, in their order
  std::int64_t bytes_ = 0;   // total of `asked_`
  std::stop_source closing_;
};

}  // namespace isocost
