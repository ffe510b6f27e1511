#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <stop_token>

#include "base/executor/executor.h"
#include "loader/dataset/dataset.h"

namespace isocost {

/// Makes the operating system read the samples that come next, so that workers do not wait for a
/// disk or a network. Reads ahead up to 32 MiB, 64 samples, or a quarter as many samples as shards
/// stay open. Opens shards for it on threads of its own. One thread at a time may call it.
class ReadAhead {
 public:
  /// `threads` may outlive this object; reads that have not begun by its end are left out.
  ReadAhead(const Dataset& dataset, Executor& threads);
  ~ReadAhead() { closing_.request_stop(); }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Returns the sample that is decoded `after` samples after the next one; nothing if none is
  /// known yet.
  using Upcoming = std::function<std::optional<SampleId>(std::size_t after)>;

  /// Call this when the decoding of a sample begins, with what comes after it. Asks for at most two
  /// more samples, so it returns soon. Each sample is asked for once as long as they come in the
  /// announced order.
  void decoding_begins(SampleId id, const Upcoming& upcoming);

 private:
  struct Asked {
    SampleId id;
    std::int64_t bytes;
  };
  void leave(SampleId id);
  void ask(SampleId id);

  const Dataset& dataset_;
  Executor& threads_;
  const std::size_t most_samples_;
  std::deque<Asked> asked_;  // samples whose decoding has not begun, in their order
  std::int64_t bytes_ = 0;   // total of `asked_`
  std::stop_source closing_;
};

}  // namespace isocost
