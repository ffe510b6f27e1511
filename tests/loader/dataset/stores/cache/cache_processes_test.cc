// A cache that several processes use, that are killed, and whose disk takes nothing. Each process
// is forked while this one has a single thread.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/scratch_directory.h"
#include "loader/dataset/stores/cache/cache_directory.h"
#include "tests/loader/dataset/stores/cache/cached_reads.h"
#include "tests/support/log_lines.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

constexpr int kCannotRun = 77;
constexpr std::int64_t kObjectBytes = 3 * kMiB;
const std::vector<std::string> kKeys = {"a", "b", "c"};

class CacheProcesses : public testing::Test {
 protected:
  fs::path directory() const { return scratch_ / "cache"; }

  // Runs a function in another process.
  static pid_t start(const std::function<int()>& work) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work());
    return child;
  }
  static int status_of(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  // A process with this cache.
  struct User {
    explicit User(const fs::path& directory, std::int64_t max_bytes = 100 * kMiB) {
      for (int i = 0; i < std::ssize(kKeys); ++i) {
        contents.push_back(bytes_of(kObjectBytes, i));
        slow->put(kKeys[static_cast<std::size_t>(i)], contents.back());
      }
      cache = ObjectCache::open({.directory = directory, .max_bytes = max_bytes, .log = log.sink()})
                  .value();
      store = create_cached_store(slow, cache);
    }
    // Reads ranges all over the objects. Returns the number of those that were wrong.
    int read_all(unsigned seed, int count) {
      std::mt19937 random(seed);
      int wrong = 0;
      for (int i = 0; i < count; ++i) {
        const auto object = random() % kKeys.size();
        const std::int64_t at = random() % 300 * 10'000;
        const ByteRange range{at,
                              std::min<std::int64_t>(at + 1 + random() % 200'000, kObjectBytes)};
        const auto bytes = read(*store, kKeys[object], range);
        const bool is_right = bytes && *bytes == part_of(contents[object], range);
        wrong += is_right ? 0 : 1;
      }
      return wrong;
    }
    std::vector<std::string> contents;  // of the objects
    LogLines log;
    std::shared_ptr<SlowStore> slow = std::make_shared<SlowStore>();
    std::shared_ptr<ObjectCache> cache;
    std::unique_ptr<ObjectStore> store;
  };

  const ScratchDirectory scratch_ = ScratchDirectory::create("cache-processes").value();
};

TEST_F(CacheProcesses, AKilledOneLeavesNoBadBytes) {
  std::mt19937 random(7);
  for (unsigned round = 0; round < 40; ++round) {
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe(ready.data()), 0);
    const pid_t child = start([&] {
      User user(directory());
      if (::write(ready[1], "x", 1) != 1) return 1;
      for (;;) {
        if (user.read_all(round, 50) != 0) return 1;
        static_cast<void>(remove_cached(directory(), "slow://b"));
      }
    });
    char begun = 0;
    ASSERT_EQ(::read(ready[0], &begun, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    // The moment at which it ends is what is tested.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(status_of(child), -SIGKILL);
    const CacheCheck check = verify_cache(directory(), [](std::string_view) {}).value();
    ASSERT_EQ(check.damaged, 0) << round;
  }
  EXPECT_GT(verify_cache(directory(), [](std::string_view) {}).value().ranges, 0);
  User user(directory());
  EXPECT_EQ(user.read_all(1, 200), 0);
  EXPECT_GT(user.cache->counts().hits, 0);
  EXPECT_EQ(user.cache->counts().damaged, 0);
}

TEST_F(CacheProcesses, SeveralAtOnceReadWhatTheStoreHas) {
  std::vector<pid_t> children;
  for (unsigned i = 0; i < 4; ++i) {
    children.push_back(start([&] {
      // Too little for all of it, so that they remove each other's entries.
      User user(directory(), 4 * kMiB);
      const int wrong = user.read_all(i % 2, 400);
      return wrong == 0 && user.log.lines().empty() ? 0 : 1;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(verify_cache(directory(), [](std::string_view) {}).value().damaged, 0);
}

TEST_F(CacheProcesses, AFileThatMayNotGrowTurnsTheCacheOffWithOneWarning) {
  const pid_t child = start([&] {
    const rlimit limit{2 << 20, 2 << 20};  // smaller than an entry
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return kCannotRun;
    User user(directory());
    if (user.read_all(1, 50) != 0) return 1;
    return user.log.lines().size() == 1 &&
                   user.log.lines().front().find("nothing more is kept") != std::string::npos
               ? 0
               : 2;
  });
  EXPECT_EQ(status_of(child), 0);
}

TEST_F(CacheProcesses, AFullDiskTurnsTheCacheOffWithOneWarning) {
  fs::create_directory(directory());
  const int status = status_of(start([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", directory().c_str(), "tmpfs", 0, "size=1m") != 0) {
      return kCannotRun;
    }
    User user(directory());
    if (user.read_all(1, 100) != 0) return 1;
    if (user.log.lines().size() != 1 ||
        user.log.lines().front().find("No space left") == std::string::npos) {
      return 2;
    }
    // It still serves what it holds.
    const auto held = list_cache(directory());
    return held && !held->empty() && user.cache->counts().kept_bytes > 0 ? 0 : 3;
  }));
  if (status == kCannotRun) GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_EQ(status, 0);
}

TEST_F(CacheProcesses, AReadOnlyDiskServesAndTurnsTheCacheOffWithOneWarning) {
  fs::create_directory(directory());
  const int status = status_of(start([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", directory().c_str(), "tmpfs", 0, "size=16m") != 0) {
      return kCannotRun;
    }
    {
      User user(directory());
      if (user.read_all(1, 20) != 0) return 1;
    }
    if (::mount("tmpfs", directory().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=16m") != 0) {
      return kCannotRun;
    }
    User user(directory());
    if (user.read_all(1, 20) != 0 || user.slow->reads().size() != 0) return 2;
    if (user.read_all(2, 20) != 0 || user.log.lines().size() != 1) return 3;
    // One that is not there cannot be made.
    User other(directory() / "another");
    if (other.read_all(1, 20) != 0 || other.log.lines().size() != 1) return 4;
    return 0;
  }));
  if (status == kCannotRun) GTEST_SKIP() << "this user may not mount a file system";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace isocost
