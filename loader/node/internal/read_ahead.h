#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <stop_token>

#include "base/executor.h"
#include "loader/dataset/dataset.h"

namespace isocost {

/// Has the operating system read the samples that come next, so that workers do not wait for a disk
/// or a network: until 32 MiB, 64 samples, or a quarter as many as shards stay open are asked for.
/// Shards are opened for it on threads of its own. One thread at a time may call it.
class ReadAhead {
 public:
  /// `threads` may be destroyed later; what has not begun by the end of this object is left out.
  ReadAhead(const Dataset& dataset, Executor& threads);
  ~ReadAhead() { closing_.request_stop(); }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// The sample that is decoded this many samples after the next one; nothing where none is known
  /// yet.
  using Upcoming = std::function<std::optional<SampleId>(std::size_t after)>;

  /// To be called when the decoding of a sample begins, with what comes after it; asks for two more
  /// at most, so that it returns soon. Each is asked for once as long as they come in the order
  /// that was told.
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
  std::deque<Asked> asked_;  // those whose decoding has not begun, in their order
  std::int64_t bytes_ = 0;   // of these
  std::stop_source closing_;
};

}  // namespace isocost
