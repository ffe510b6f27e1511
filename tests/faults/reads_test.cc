// Reads of shards that the machine refuses: no sample is lost, delivery waits, and the job ends
// with the cause where the reads stay refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "loader/dataset/dataset.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "tests/e2e/loop_fixture.h"
#include "tests/support/log_lines.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

constexpr std::chrono::milliseconds kPause{2500};

// A limit of this process, until the end of the scope.
class ProcessLimit {
 public:
  ProcessLimit(__rlimit_resource what, rlim_t limit) : what_(what) {
    EXPECT_EQ(getrlimit(what_, &before_), 0);
    const rlimit now{limit, before_.rlim_max};
    EXPECT_EQ(setrlimit(what_, &now), 0);
  }
  ~ProcessLimit() { setrlimit(what_, &before_); }
  ProcessLimit(const ProcessLimit&) = delete;
  ProcessLimit& operator=(const ProcessLimit&) = delete;

 private:
  const __rlimit_resource what_;
  rlimit before_{};
};

class Reads : public LoopTest {
 protected:
  // Indexes the data, provokes the fault, and serves one rank.
  Result<Delivered> serve_after(const NodeOptions& options, const std::function<void()>& fault) {
    before_serving = [&](Node& node) {
      node_ = &node;
      fault();
    };
    node_log = log_.sink();
    trainer_log = notices_.sink();
    return try_run(options, {}, &told_);
  }

  // Does what serve_after does; `repair` ends the fault a while later, on a thread of its own.
  Result<Delivered> serve_with_repair(const std::function<void()>& fault,
                                      const std::function<void()>& repair) {
    std::jthread repairer;
    return serve_after(options(1), [&] {
      fault();
      repairer = std::jthread([&] {
        std::this_thread::sleep_for(kPause);
        repair();
      });
    });
  }
  std::vector<fs::path> paths() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(shards())) {
      if (entry.is_regular_file()) all.push_back(entry.path());
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  void expect_whole(const Result<Delivered>& outcome, std::size_t samples) {
    ASSERT_TRUE(outcome.has_value()) << outcome.error().message();
    EXPECT_EQ(outcome->summary.bad, 0U);
    const auto counts = outcome->counts(0);
    EXPECT_EQ(counts.size(), samples);
    for (const auto& [id, count] : counts) EXPECT_EQ(count, 1) << id;
  }

  Node* node_ = nullptr;
  std::string told_;
  LogLines log_;
  LogLines notices_;
};

TEST_F(Reads, AShardThatIsGoneForAWhilePausesDeliveryAndNothingIsLost) {
  make_dataset(64);
  const fs::path shard = paths().back();
  const fs::path away = scratch() / "away.tar";
  double paused_s = 0;
  const auto outcome = serve_with_repair([&] { fs::rename(shard, away); },
                                         [&] {
                                           paused_s = node_->metrics().paused_s;
                                           fs::rename(away, shard);
                                         });
  expect_whole(outcome, 64);
  EXPECT_GT(paused_s, 0);
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("delivery is paused")));
  EXPECT_THAT(log_.lines(), Contains(HasSubstr(shard.filename().string() + ": cannot open")));
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("reads succeed again")));
  EXPECT_THAT(notices_.lines(), Contains(HasSubstr("the node: delivery is paused")));
}

TEST_F(Reads, AShardThatStaysAwayEndsTheJobWithItsName) {
  make_dataset(64);
  const fs::path shard = paths().back();
  NodeOptions impatient = options(1);
  impatient.decode.io_timeout = std::chrono::milliseconds(300);
  const auto outcome = serve_after(impatient, [&] { fs::remove(shard); });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code(), ErrorCode::kIo);
  EXPECT_THAT(outcome.error().message(), HasSubstr(shard.filename().string() + ": cannot open"));
  EXPECT_THAT(told_, HasSubstr(shard.filename().string() + ": cannot open"));
}

TEST_F(Reads, MoreShardsThanFilesThatMayBeOpenLoseNothing) {
  const fs::path files = scratch() / "texts";
  fs::create_directories(files);
  for (int i = 0; i < 300; ++i) write_file(files / (std::to_string(1000 + i) + ".txt"), "text");
  MakeShardsOptions making;
  making.samples_per_shard = 1;
  ASSERT_TRUE(make_shards(files, shards(), making).has_value());
  const ProcessLimit few(RLIMIT_NOFILE, 160);
  expect_whole(serve_after(options(1), [] {}), 300);
}

TEST_F(Reads, AFullDiskWhileAShardIsInflatedPausesDeliveryAndNothingIsLost) {
  make_dataset(64);
  for (const fs::path& shard : paths()) {
    write_file(shard.string() + ".gz", gzip(read_file(shard)));
    fs::remove(shard);
  }
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  std::unique_ptr<ProcessLimit> full;
  const auto outcome = serve_with_repair(
      [&] { full = std::make_unique<ProcessLimit>(RLIMIT_FSIZE, 4096); }, [&] { full.reset(); });
  std::signal(SIGXFSZ, handler);
  expect_whole(outcome, 64);
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("writing decompressed bytes")));
}

TEST_F(Reads, AnIndexThatIsCutWhileItIsInUseEndsTheJobWithItsName) {
  make_dataset(64);
  const fs::path index = shards() / ".isocost" / (paths().back().filename().string() + ".idx");
  ASSERT_TRUE(Dataset::open(shards(), {}).has_value());  // it is mapped the next time
  for (const std::uintmax_t left : {0, 300}) {  // 300: the page stays, and its end reads as zeros
    const auto outcome = serve_after(options(1), [&] { fs::resize_file(index, left); });
    ASSERT_FALSE(outcome.has_value());
    EXPECT_THAT(outcome.error().message(), HasSubstr(index.string() + ": it was cut"));
    expect_whole(serve_after(options(1), [] {}), 64);
  }
}

TEST_F(Reads, AShardThatIsOverwrittenWithTheSameSizeAndTimeIsNamedAndIndexedAnewNextTime) {
  make_dataset(64);
  const fs::path shard = paths().back();
  NodeOptions impatient = options(1);
  impatient.decode.io_timeout = std::chrono::milliseconds(300);
  impatient.plan.epochs = 1;
  const auto outcome = serve_after(impatient, [&] {
    std::string bytes = read_file(shard);
    const auto time = fs::last_write_time(shard);
    for (const std::size_t at : {std::size_t{0}, bytes.size() / 2}) bytes[at + 700] ^= 1;
    std::ofstream(shard, std::ios::binary | std::ios::in)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    fs::last_write_time(shard, time);
  });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code(), ErrorCode::kIo);
  EXPECT_THAT(outcome.error().message(),
              HasSubstr(shard.filename().string() + ": has changed since it was indexed"));
  EXPECT_TRUE(serve_after(options(1), [] {}).has_value());
}

TEST_F(Reads, AShardThatIsCutWhileItIsOpenEndsTheJobWithItsName) {
  make_dataset(160);
  NodeOptions impatient = options(1);
  impatient.decode.io_timeout = std::chrono::milliseconds(300);
  impatient.plan.global_batch_size = 8;
  impatient.plan.epochs = 4;
  bool cut = false;
  const auto outcome = try_run(
      impatient,
      [&](std::int64_t, Client&, const Microbatch&) {
        if (std::exchange(cut, true)) return;
        for (const fs::path& shard : paths()) fs::resize_file(shard, fs::file_size(shard) / 2);
      },
      &told_);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code(), ErrorCode::kIo);
  EXPECT_THAT(outcome.error().message(), HasSubstr("has changed since it was indexed"));
  EXPECT_FALSE(fs::exists(scratch() / "bad.jsonl"));
}

}  // namespace
}  // namespace isocost
