#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "loader/dataset/dataset.h"

namespace isocost {

/// The samples that are being decoded, and the time at which each decode began. Internally
/// synchronised.
class DecodesInFlight {
 public:
  /// One decode, from its construction to the end of its scope.
  class Scope {
   public:
    Scope(DecodesInFlight& all, SampleId id) : all_(all), entry_(all.begin(id)) {}
    ~Scope() { all_.end(entry_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DecodesInFlight& all_;
    std::multimap<MonotonicTime, SampleId>::iterator entry_;
  };

  struct Oldest {
    SampleId id = 0;
    double seconds = 0;
  };
  std::optional<Oldest> oldest() const ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (samples_.empty()) return std::nullopt;
    const auto& [since, id] = *samples_.begin();
    return Oldest{id, seconds_between(since, steady_clock()())};
  }

 private:
  using Entry = std::multimap<MonotonicTime, SampleId>::iterator;
  Entry begin(SampleId id) ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return samples_.emplace(steady_clock()(), id);
  }
  void end(Entry entry) ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    samples_.erase(entry);
  }

  mutable Mutex mutex_;
  std::multimap<MonotonicTime, SampleId> samples_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
