#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"

namespace isocost::cli {

/// A progress bar of one line: redrawn in place on a terminal, a line per tenth elsewhere. States
/// are written outside the lock, in the order of the calls, by one of the threads that call.
/// Thread-safe.
class ProgressBar {
 public:
  using Write = std::function<void(std::string_view text)>;

  ProgressBar(bool terminal, Write write) : terminal_(terminal), write_(std::move(write)) {}

  /// Draws the bar unless its look would not change. Returns before it is on the screen if another
  /// thread is writing, which then writes it.
  void show(std::uint64_t done, std::uint64_t total, std::string_view what)
      ISOCOST_EXCLUDES(mutex_);

  /// Ends the line of a bar that is being drawn.
  void finish() ISOCOST_EXCLUDES(mutex_);

 private:
  std::string drawn(std::uint64_t done, std::uint64_t total, std::string_view what)
      ISOCOST_REQUIRES(mutex_);
  bool add(const std::string& text) ISOCOST_REQUIRES(mutex_);
  void write_pending() ISOCOST_EXCLUDES(mutex_);

  const bool terminal_;
  const Write write_;
  Mutex mutex_;
  int last_permille_ ISOCOST_GUARDED_BY(mutex_) = -1;
  std::string last_what_ ISOCOST_GUARDED_BY(mutex_);
  bool open_ ISOCOST_GUARDED_BY(mutex_) = false;  // whether the cursor is at the end of the bar
  std::string pending_ ISOCOST_GUARDED_BY(mutex_);
  bool writing_ ISOCOST_GUARDED_BY(mutex_) = false;
};

}  // namespace isocost::cli
