#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/stores/s3/aws_credentials.h"
#include "loader/dataset/stores/s3/internal/credential_source.h"

namespace isocost {

/// Returns the present time of day. Passed in, so that a test can set it.
using WallClock = std::function<std::chrono::sys_seconds()>;
WallClock system_wall_clock();

/// Keeps the credentials of a source, and fetches new ones on a thread of its own before they
/// expire: ten minutes before, or when two thirds of their time are over. Thread-safe.
class CredentialKeeper {
 public:
  explicit CredentialKeeper(CredentialSource source, LogSink log = {},
                            WallClock now = system_wall_clock());
  CredentialKeeper(const CredentialKeeper&) = delete;
  CredentialKeeper& operator=(const CredentialKeeper&) = delete;

  /// Returns valid credentials. Blocks until they are fetched if there are none. If a fetch fails
  /// while those at hand are valid, a warning is logged, and the next fetch is a minute later.
  /// Errors: those of the source; kCancelled.
  Result<AwsCredentials> get(const std::stop_token& stop);
  /// Says that a server refused these credentials as expired. The next `get` waits for others,
  /// unless they were fetched since.
  void refuse(const AwsCredentials& credentials);

  const std::string& source_name() const { return source_.name; }
  /// Returns how often credentials were fetched after the first time.
  std::int64_t renewals() const;

 private:
  bool is_valid(std::chrono::sys_seconds now) const ISOCOST_REQUIRES(mutex_);
  void run(const std::stop_token& stop);
  void keep(Result<AwsCredentials> fetched);
  std::string keep_locked(Result<AwsCredentials> fetched) ISOCOST_REQUIRES(mutex_);

  const CredentialSource source_;
  const LogSink log_;
  const WallClock now_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::optional<AwsCredentials> held_ ISOCOST_GUARDED_BY(mutex_);
  std::chrono::sys_seconds next_fetch_ ISOCOST_GUARDED_BY(mutex_);
  bool is_refused_ ISOCOST_GUARDED_BY(mutex_) = false;
  bool is_fetch_wanted_ ISOCOST_GUARDED_BY(mutex_) = false;  ///< Until it has ended.
  std::int64_t fetches_ ISOCOST_GUARDED_BY(mutex_) = 0;      ///< Ended, with those that failed.
  std::int64_t successes_ ISOCOST_GUARDED_BY(mutex_) = 0;
  Result<AwsCredentials> last_fetch_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<std::chrono::sys_seconds> failed_at_ ISOCOST_GUARDED_BY(mutex_);

  std::jthread thread_;
};

}  // namespace isocost
