#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "loader/dataset/dataset.h"

namespace isocost {

/// Has the operating system read samples before their decoding begins, so that workers do not wait
/// for a disk or a network: as many of those that come next as 32 MiB hold, but no more than 64,
/// and at least one. It asks for two with each that begins, so that nothing waits for the first 64
/// shards to be opened. Single-thread.
class ReadAhead {
 public:
  explicit ReadAhead(const Dataset& dataset) : dataset_(dataset) {}

  /// The sample that begins this many samples after the next one; nothing where none is known yet.
  using Upcoming = std::function<std::optional<SampleId>(std::size_t after)>;

  /// To be called when the decoding of a sample begins, with what comes after it. Each sample is
  /// asked for once as long as they come in the order that was told.
  void begin(SampleId id, const Upcoming& upcoming);

 private:
  struct Asked {
    SampleId id;
    std::int64_t bytes;
  };
  void leave(SampleId id);

  const Dataset& dataset_;
  std::deque<Asked> asked_;  // those that have not begun, in their order
  std::int64_t bytes_ = 0;   // of these
};

}  // namespace isocost
