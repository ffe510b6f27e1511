#include "loader/dataset/stores/s3/internal/credential_keeper.h"

#include <algorithm>
#include <utility>

#include "base/thread_name.h"

namespace isocost {
namespace {

using std::chrono::sys_seconds;

constexpr std::chrono::seconds kAhead = std::chrono::minutes(10);
constexpr std::chrono::seconds kKeptFailure{5};
constexpr std::chrono::seconds kPauseAfterFailure = std::chrono::minutes(1);

sys_seconds expiry_of(const AwsCredentials& credentials) {
  return credentials.expires.value_or(sys_seconds::max());
}

// Credentials that come back expired would be fetched again for each request.
Result<AwsCredentials> fetch(const CredentialSource& source, const std::stop_token& stop,
                             const WallClock& now) {
  Result<AwsCredentials> credentials = source.fetch(stop);
  if (!credentials || expiry_of(*credentials) > now()) return credentials;
  return Error(ErrorCode::kIo, "the credentials of " + source.name +
                                   " have expired: renew them, and look at this machine's clock");
}

}  // namespace

WallClock system_wall_clock() {
  return [] { return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()); };
}

CredentialKeeper::CredentialKeeper(CredentialSource source, LogSink log, WallClock now)
    : source_(std::move(source)),
      log_(std::move(log)),
      now_(std::move(now)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

bool CredentialKeeper::is_valid(sys_seconds now) const {
  return held_ && !is_refused_ && expiry_of(*held_) > now;
}

Result<AwsCredentials> CredentialKeeper::get(const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  const sys_seconds now = now_();
  const bool valid = is_valid(now);
  // Those who waited for a fetch that failed do not have it tried again one after another.
  if (!valid && failed_at_ && now - *failed_at_ < kKeptFailure) return last_fetch_;
  if ((!valid || now >= next_fetch_) && !is_fetch_wanted_) {
    is_fetch_wanted_ = true;
    changed_.notify_all();
  }
  if (valid && held_) return *held_;
  const std::int64_t before = fetches_;
  const bool is_over =
      changed_.wait(mutex_, stop, [&]() ISOCOST_REQUIRES(mutex_) { return fetches_ != before; });
  if (!is_over) return Error(ErrorCode::kCancelled, "stopped while it waited for credentials");
  return last_fetch_;
}

void CredentialKeeper::run(const std::stop_token& stop) {
  name_thread("isocost-keys");
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (!changed_.wait(mutex_, stop, [&]() ISOCOST_REQUIRES(mutex_) {
            return is_fetch_wanted_ || stop.stop_requested();
          })) {
        return;
      }
    }
    if (stop.stop_requested()) return;
    keep(fetch(source_, stop, now_));
  }
}

void CredentialKeeper::keep(Result<AwsCredentials> fetched) {
  std::string warning;
  {
    const MutexLock lock(mutex_);
    warning = keep_locked(std::move(fetched));
    is_fetch_wanted_ = false;
    ++fetches_;
    changed_.notify_all();
  }
  if (!warning.empty()) log(log_, LogLevel::kWarning, warning);
}

// Returns what is to be logged; empty: nothing.
std::string CredentialKeeper::keep_locked(Result<AwsCredentials> fetched) {
  const sys_seconds now = now_();
  last_fetch_ = fetched;
  failed_at_.reset();
  if (!fetched) {
    if (!is_valid(now)) {
      failed_at_ = now;
      return "";
    }
    next_fetch_ = now + kPauseAfterFailure;
    return "AWS credentials of " + source_.name +
           " cannot be renewed; the node tries again each minute until they expire: " +
           fetched.error().message();
  }
  ++successes_;
  is_refused_ = false;
  const sys_seconds expiry = expiry_of(*fetched);
  next_fetch_ = expiry - std::min<std::chrono::seconds>(kAhead, (expiry - now) / 3);
  held_ = *std::move(fetched);
  return "";
}

void CredentialKeeper::refuse(const AwsCredentials& credentials) {
  const MutexLock lock(mutex_);
  if (held_ && *held_ == credentials) is_refused_ = true;
}

std::int64_t CredentialKeeper::renewals() const {
  const MutexLock lock(mutex_);
  return std::max<std::int64_t>(successes_ - 1, 0);
}

}  // namespace isocost
