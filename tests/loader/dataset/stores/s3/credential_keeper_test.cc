#include "loader/dataset/stores/s3/internal/credential_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

namespace isocost {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using std::chrono::sys_seconds;
using testing::HasSubstr;

// A source whose fetches a test answers, and the time of day that it sets.
class KeeperTest : public testing::Test {
 protected:
  CredentialSource source() {
    return {"a test", [this](const std::stop_token& stop) { return answer(stop); }};
  }
  WallClock clock() {
    return [this] { return sys_seconds(seconds(now_s_)); };
  }

  AwsCredentials keys(const std::string& id, seconds lifetime) const {
    return {.access_key_id = id,
            .secret_access_key = "secret",
            .session_token = "token",
            .expires = sys_seconds(seconds(now_s_)) + lifetime};
  }
  void next_answer(Result<AwsCredentials> answer) {
    const MutexLock lock(mutex_);
    answers_.push_back(std::move(answer));
    changed_.notify_all();
  }
  // Waits until a fetch has begun, or ended.
  void wait_for_fetch(int number) {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, [&]() ISOCOST_REQUIRES(mutex_) { return begun_ >= number; });
  }

  std::atomic<std::int64_t> now_s_ = 1'000'000;

 private:
  Result<AwsCredentials> answer(const std::stop_token& stop) {
    const MutexLock lock(mutex_);
    ++begun_;
    changed_.notify_all();
    if (!changed_.wait(mutex_, stop,
                       [&]() ISOCOST_REQUIRES(mutex_) { return !answers_.empty(); })) {
      return Error(ErrorCode::kCancelled, "stopped");
    }
    Result<AwsCredentials> first = std::move(answers_.front());
    answers_.erase(answers_.begin());
    return first;
  }

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Result<AwsCredentials>> answers_ ISOCOST_GUARDED_BY(mutex_);
  int begun_ ISOCOST_GUARDED_BY(mutex_) = 0;
};

TEST_F(KeeperTest, RenewsAheadWhileOthersGoOn) {
  CredentialKeeper keeper(source(), {}, clock());
  next_answer(keys("first", minutes(60)));
  EXPECT_EQ(keeper.get({}).value().access_key_id, "first");
  now_s_ += 49 * 60;
  EXPECT_EQ(keeper.get({}).value().access_key_id, "first");
  EXPECT_EQ(keeper.renewals(), 0);
  now_s_ += 60;
  // The fetch has begun, and is not answered yet.
  EXPECT_EQ(keeper.get({}).value().access_key_id, "first");
  wait_for_fetch(2);
  EXPECT_EQ(keeper.get({}).value().access_key_id, "first");
  next_answer(keys("second", minutes(60)));
  while (keeper.renewals() == 0) std::this_thread::yield();
  EXPECT_EQ(keeper.get({}).value().access_key_id, "second");
}

TEST_F(KeeperTest, RenewsShortLivedKeysWhenTwoThirdsAreOver) {
  CredentialKeeper keeper(source(), {}, clock());
  next_answer(keys("first", minutes(15)));
  EXPECT_TRUE(keeper.get({}));
  now_s_ += 9 * 60;
  EXPECT_TRUE(keeper.get({}));
  now_s_ += 60;
  EXPECT_TRUE(keeper.get({}));
  wait_for_fetch(2);
}

TEST_F(KeeperTest, GoesOnWithValidKeysThatCannotBeRenewed) {
  std::atomic<int> warnings = 0;
  CredentialKeeper keeper(source(), [&](LogLevel, std::string_view) { ++warnings; }, clock());
  next_answer(keys("first", minutes(60)));
  EXPECT_TRUE(keeper.get({}));
  now_s_ += 55 * 60;
  next_answer(Error(ErrorCode::kUnavailable, "the service is away"));
  EXPECT_EQ(keeper.get({}).value().access_key_id, "first");
  while (warnings == 0) std::this_thread::yield();
  EXPECT_EQ(keeper.get({}).value().access_key_id, "first");
  // They have expired, and now the error is told.
  now_s_ += 5 * 60;
  next_answer(Error(ErrorCode::kUnavailable, "the service is away"));
  const Error error = keeper.get({}).error();
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_EQ(error.message(), "the service is away");
  // For some seconds nobody has it tried again.
  EXPECT_EQ(keeper.get({}).error().message(), "the service is away");
  now_s_ += 5;
  next_answer(keys("second", minutes(60)));
  EXPECT_EQ(keeper.get({}).value().access_key_id, "second");
  EXPECT_EQ(warnings, 1);
}

TEST_F(KeeperTest, AsksOnceForAllThatWait) {
  CredentialKeeper keeper(source(), {}, clock());
  std::atomic<int> got = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] { got += keeper.get({}).has_value() ? 1 : 0; });
    }
    wait_for_fetch(1);
    next_answer(keys("first", minutes(60)));
  }
  EXPECT_EQ(got, 8);
  EXPECT_EQ(keeper.renewals(), 0);
}

TEST_F(KeeperTest, FetchesAgainWhatWasRefused) {
  CredentialKeeper keeper(source(), {}, clock());
  AwsCredentials first = keys("first", minutes(60));
  first.expires.reset();
  next_answer(first);
  EXPECT_EQ(keeper.get({}).value(), first);
  now_s_ += 1'000'000'000;
  EXPECT_EQ(keeper.get({}).value(), first);
  keeper.refuse(first);
  next_answer(keys("second", minutes(60)));
  EXPECT_EQ(keeper.get({}).value().access_key_id, "second");
  // Others whose requests were signed with the first ones say so later.
  keeper.refuse(first);
  EXPECT_EQ(keeper.get({}).value().access_key_id, "second");
  EXPECT_EQ(keeper.renewals(), 1);
}

TEST_F(KeeperTest, RefusesKeysThatHaveExpired) {
  CredentialKeeper keeper(source(), {}, clock());
  next_answer(keys("first", seconds(0)));
  EXPECT_THAT(keeper.get({}).error().message(), HasSubstr("of a test have expired"));
}

TEST_F(KeeperTest, StopsWaiting) {
  CredentialKeeper keeper(source(), {}, clock());
  std::stop_source stop;
  const std::jthread thread([&] {
    wait_for_fetch(1);
    stop.request_stop();
  });
  EXPECT_EQ(keeper.get(stop.get_token()).error().code(), ErrorCode::kCancelled);
  // Its own fetch is stopped by the destructor.
}

}  // namespace
}  // namespace isocost
