#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"

namespace isocost {

/// Lets one process or thread at a time make the indexes, or the tokens, of a directory. A file
/// holds the lock and says who has it. The kernel frees it when its process ends, also when it is
/// killed. Where the file system has no such locks, nothing is locked. `tell` may be called from
/// any thread.
class MakerLock {
 public:
  ~MakerLock();  ///< Removes the file.
  MakerLock(const MakerLock&) = delete;
  MakerLock& operator=(const MakerLock&) = delete;

  /// Says how far the work is, for those that wait: "3 of 10 shards". Writes at most twice a
  /// second.
  void tell(std::string_view progress) ISOCOST_EXCLUDES(mutex_);

 private:
  friend class MakerLockRequest;
  MakerLock(std::filesystem::path file, std::optional<FileDescriptor> descriptor);
  void write(std::string_view progress) const;

  const std::filesystem::path file_;
  const std::optional<FileDescriptor> descriptor_;  ///< Nothing: the file system has no locks.
  Mutex mutex_;
  std::chrono::steady_clock::time_point told_ ISOCOST_GUARDED_BY(mutex_);
};

/// A wait for the lock in `file`. Single-thread.
class MakerLockRequest {
 public:
  /// `what`: the files that are made, for the log: "the tokens of data/shards".
  MakerLockRequest(std::filesystem::path file, std::string what, LogSink log);

  /// Tries once. Returns null while another has the lock; logs who has it and how far it is, at
  /// once and then twice a minute. Does not block. Errors: kIo if the file cannot be made.
  Result<std::unique_ptr<MakerLock>> poll();
  /// Waits for the lock. Errors: those of `poll`; kCancelled when `stop` is requested.
  Result<std::unique_ptr<MakerLock>> wait(const std::stop_token& stop);

 private:
  void log_holder(const std::string& holder);

  const std::filesystem::path file_;
  const std::string what_;
  const LogSink log_;
  std::optional<std::chrono::steady_clock::time_point> logged_;
};

}  // namespace isocost
