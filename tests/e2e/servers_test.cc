// Shards on a server: a node delivers from there what it delivers from the directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "base/fingerprint.h"
#include "base/mutex.h"
#include "loader/config/option_table.h"
#include "loader/dataset/stores/cache/cache_directory.h"
#include "tests/e2e/loop_fixture.h"
#include "tests/support/fault_server.h"
#include "tests/support/log_lines.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

// A hash of the tensors of each microbatch, by its place.
class Tensors {
 public:
  TrainerStep step() {
    return [this](std::int64_t rank, Client&, const Microbatch& microbatch) {
      Fingerprint hash;
      for (const NamedTensor& named : microbatch.tensors) {
        hash.add(named.name);
        const auto bytes = named.tensor.bytes();
        hash.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
      }
      const Position& at = microbatch.header.position;
      const MutexLock lock(mutex_);
      hashes_[{rank, at.epoch, at.step, at.microbatch}] = hash.value();
    };
  }
  using Place = std::tuple<std::int64_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  const std::map<Place, std::uint64_t>& hashes() const { return hashes_; }

 private:
  Mutex mutex_;
  std::map<Place, std::uint64_t> hashes_;
};

class Servers : public LoopTest {
 protected:
  static constexpr int kSamples = 96;  // in six shards

  Servers() { node_log = log_.sink(); }
  void serve_files(int samples = kSamples) {
    samples_ = samples;
    make_dataset(samples);
    auto started = FaultServer::start(shards(), scratch());
    ASSERT_TRUE(started.has_value()) << started.error().message();
    server_.emplace(*std::move(started));
  }
  std::string address() const {
    const std::string last = std::to_string(samples_ / 16 - 1);
    return server_->address() + "shard-{000000.." + std::string(6 - last.size(), '0') + last +
           "}.tar";
  }
  NodeOptions options() const { return LoopTest::options(2); }
  NodeOptions options_at(const std::string& data) const {
    NodeOptions options = this->options();
    options.data = data;
    options.decode.index_dir = scratch() / "indexes";
    options.plan.epochs = 2;
    return options;
  }
  static NodeOptions in_blocks(NodeOptions options) {
    options.plan.shuffle = ShufflePolicy::kBlocks;
    options.plan.shuffle_shards = 2;
    return options;
  }
  // Whether the node delivers from the server what it delivers from the directory.
  void expect_same_as_directory() {
    Tensors local;
    const Delivered of_directory = run(options_at(shards()), local.step());
    Tensors remote;
    const Delivered of_server = run(options_at(address()), remote.step());
    EXPECT_EQ(of_server.batches(), of_directory.batches());
    EXPECT_EQ(of_server.plan_hashes(), of_directory.plan_hashes());
    EXPECT_EQ(remote.hashes(), local.hashes());
    EXPECT_EQ(local.hashes().size(), 2U * 2 * 2 * kSamples / 16);
  }
  // The cache is too small for the data set in these tests but for one.
  NodeOptions cached_at(const std::string& data, std::int64_t bytes) const {
    NodeOptions options = options_at(data);
    options.decode.cache = scratch() / "cache";
    options.decode.cache_size = bytes;
    return options;
  }
  std::int64_t stored_bytes() const {
    std::int64_t stored = 0;
    for (const auto& file : std::filesystem::directory_iterator(shards())) {
      if (file.path().extension() == ".tar") stored += static_cast<std::int64_t>(file.file_size());
    }
    return stored;
  }
  // Packs every shard, in turn by gzip and zstd, in place of the plain one. Returns their bytes.
  std::int64_t pack_shards() const {
    std::int64_t bytes = 0;
    for (int i = 0; i < samples_ / 16; ++i) {
      const std::filesystem::path file = shards() / packed_name(i);
      const std::filesystem::path plain = shards() / file.stem();
      const std::string tar = read_file(plain);
      const std::string packed = i % 2 == 0 ? gzip(tar) : zstd(tar);
      write_file(file, packed);
      std::filesystem::remove(plain);
      bytes += static_cast<std::int64_t>(packed.size());
    }
    return bytes;
  }
  static std::string packed_name(int shard) {
    const std::string number = std::to_string(shard);
    return "shard-" + std::string(6 - number.size(), '0') + number + ".tar" +
           (shard % 2 == 0 ? ".gz" : ".zst");
  }
  std::string packed_address() const {
    std::string names;
    for (int i = 0; i < samples_ / 16; ++i) names += (i > 0 ? "," : "") + packed_name(i);
    return server_->address() + "{" + names + "}";
  }
  // Requests for bytes of shards, and those bytes.
  struct Reads {
    std::size_t requests = 0;
    std::int64_t bytes = 0;
    std::size_t stamps = 0;
  };
  Reads reads() const {
    Reads reads;
    for (const json& request : server_->requests()) {
      if (request.at("method") == "HEAD") {
        ++reads.stamps;
        continue;
      }
      ++reads.requests;
      reads.bytes += request.at("bytes").get<std::int64_t>();
    }
    return reads;
  }

  LogLines log_;
  std::optional<FaultServer> server_;
  int samples_ = kSamples;
};

TEST_F(Servers, DeliverWhatTheDirectoryDelivers) {
  serve_files();
  expect_same_as_directory();
}

TEST_F(Servers, DeliverItToo) {
  serve_files();
  server_->set_rules({{{"fault", "status"}, {"status", 503}, {"share", 0.02}},
                      {{"fault", "status"}, {"status", 429}, {"retry_after", 0}, {"share", 0.01}},
                      {{"fault", "reset"}, {"share", 0.01}},
                      {{"fault", "cut"}, {"after", 300}, {"share", 0.02}}});
  expect_same_as_directory();
}

TEST_F(Servers, AreAskedOnceForASampleAndForAStampOfEachShard) {
  serve_files();
  static_cast<void>(run(options_at(address())));  // makes the indexes
  server_->clear_log();
  NodeOptions options = options_at(address());
  options.plan.epochs = 1;
  Node* served = nullptr;
  before_serving = [&](Node& node) { served = &node; };
  std::vector<StoreTotals> stores;
  Mutex mutex;
  static_cast<void>(run(options, [&](std::int64_t, Client&, const Microbatch&) {
    const MutexLock lock(mutex);
    stores = served->metrics().stores;
  }));
  ASSERT_EQ(stores.size(), 1U);
  EXPECT_EQ(stores[0].name + "/", server_->address());
  EXPECT_GT(stores[0].requests, kSamples / 2);
  EXPECT_GT(stores[0].bytes, 0);
  const Reads reads = this->reads();
  EXPECT_EQ(reads.stamps, 6U);
  EXPECT_LE(reads.requests, kSamples * 12 / 10);
  EXPECT_LE(reads.bytes, stored_bytes());
  EXPECT_GT(reads.bytes, 0);
}

TEST_F(Servers, AnIndexThatWasMadeOnADiskIsCopiedAndServesTheServer) {
  serve_files();
  const Delivered of_directory = run(options());  // makes .isocost beside the shards
  ASSERT_TRUE(std::filesystem::exists(shards() / ".isocost/shard-000000.tar.idx"));
  server_->clear_log();
  NodeOptions remote = options();
  remote.data = address();
  remote.decode.index_dir = scratch() / "indexes";
  EXPECT_EQ(run(remote).batches(), of_directory.batches());
  // Only 16 blocks of the shards and the samples were read.
  for (const json& request : server_->requests()) {
    if (!request.at("path").get<std::string>().ends_with(".tar")) continue;
    EXPECT_LT(request.at("bytes").get<std::int64_t>(), 1 << 20);
  }
  server_->clear_log();
  EXPECT_EQ(run(remote).batches(), of_directory.batches());
  for (const json& request : server_->requests()) {
    EXPECT_THAT(request.at("path").get<std::string>(), Not(HasSubstr(".isocost")));
  }
}

TEST_F(Servers, BehindACacheThatIsTooSmallDeliverWhatTheDirectoryDelivers) {
  serve_files(960);
  server_->set_rules({{{"fault", "status"}, {"status", 503}, {"share", 0.03}},
                      {{"fault", "reset"}, {"share", 0.01}},
                      {{"fault", "cut"}, {"after", 300}, {"share", 0.01}}});
  constexpr std::int64_t kCacheBytes = std::int64_t{1} << 20;
  ASSERT_GT(stored_bytes(), 2 * kCacheBytes);
  Tensors local;
  const Delivered of_directory = run(options_at(shards()), local.step());
  Tensors remote;
  const Delivered of_server = run(cached_at(address(), kCacheBytes), remote.step());
  EXPECT_EQ(of_server.batches(), of_directory.batches());
  EXPECT_EQ(of_server.plan_hashes(), of_directory.plan_hashes());
  EXPECT_EQ(remote.hashes(), local.hashes());
  std::int64_t held = 0;
  const auto entries = list_cache(scratch() / "cache").value();
  for (const CachedObjectInfo& entry : entries) {
    held += entry.disk_bytes;
  }
  EXPECT_GT(held, 0);
  EXPECT_LE(held, kCacheBytes);
}

TEST_F(Servers, BehindACacheAreAskedForNoBytesInTheSecondEpochNorByTheNextJob) {
  serve_files();
  constexpr std::int64_t kCacheBytes = std::int64_t{1} << 30;
  static_cast<void>(run(options_at(address())));  // makes the indexes
  server_->clear_log();
  Tensors first;
  static_cast<void>(run(cached_at(address(), kCacheBytes), first.step()));  // two epochs
  EXPECT_LE(reads().requests, kSamples * 12 / 10);
  EXPECT_LE(reads().bytes, stored_bytes());
  server_->clear_log();
  Tensors second;
  Node* served = nullptr;
  before_serving = [&](Node& node) { served = &node; };
  CacheTotals cache;
  Mutex mutex;
  const auto step = second.step();
  const auto counted = [&](std::int64_t rank, Client& client, const Microbatch& microbatch) {
    step(rank, client, microbatch);
    const MutexLock lock(mutex);
    cache = served->metrics().cache;
  };
  static_cast<void>(run(cached_at(address(), kCacheBytes), counted));
  EXPECT_EQ(second.hashes(), first.hashes());
  EXPECT_GT(cache.hits, kSamples);
  EXPECT_EQ(cache.misses, 0);
  EXPECT_EQ(reads().requests, 0U);
  EXPECT_EQ(reads().stamps, 6U);
}

TEST_F(Servers, ACacheThatIsDeletedWhileItIsUsedIsNoMatter) {
  serve_files();
  static_cast<void>(run(cached_at(address(), std::int64_t{1} << 30)));
  Tensors local;
  static_cast<void>(run(options_at(shards()), local.step()));
  Tensors remote;
  before_serving = [this](Node&) { std::filesystem::remove_all(scratch() / "cache"); };
  static_cast<void>(run(cached_at(address(), std::int64_t{1} << 30), remote.step()));
  EXPECT_EQ(remote.hashes(), local.hashes());
}

TEST_F(Servers, ACacheInADirectoryOfOtherFilesEndsTheStart) {
  serve_files();
  NodeOptions options = cached_at(address(), std::int64_t{1} << 30);
  options.decode.cache = shards();
  const auto refused = try_run(options, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr(shards().string()), HasSubstr("holds other files")));
}

// How often an order of samples from all over asks is said before it does, once.
TEST_F(Servers, TheRequestsOfAnEpochAreSaidAtTheStart) {
  serve_files();
  const auto said = [&](const NodeOptions& options) {
    LogLines log;
    node_log = log.sink();
    static_cast<void>(run(options));
    std::vector<std::string> notes;
    for (const std::string& line : log.lines()) {
      if (line.find("asks servers") != std::string::npos) notes.push_back(line);
    }
    return notes;
  };
  NodeOptions options = options_at(address());
  EXPECT_THAT(said(options),
              testing::ElementsAre(AllOf(HasSubstr("each epoch asks servers some 96 times"),
                                         HasSubstr("--shuffle blocks"))));
  options.plan.steps = 2;
  EXPECT_THAT(said(options),
              testing::ElementsAre(HasSubstr("each epoch asks servers some 32 times")));
  options.plan.shuffle = ShufflePolicy::kBlocks;
  EXPECT_THAT(said(options),
              testing::ElementsAre(HasSubstr("each epoch asks servers some 32 times")));
  options.decode.cache = scratch() / "cache";
  EXPECT_THAT(said(options), testing::IsEmpty());
  options.plan.shuffle = ShufflePolicy::kOff;
  EXPECT_THAT(said(options),
              testing::ElementsAre(HasSubstr("the first epoch asks servers some 32 times")));
  EXPECT_THAT(said(options_at(shards())), testing::IsEmpty());
}

TEST_F(Servers, InBlocksDeliverWhatTheDirectoryDelivers) {
  serve_files();
  const Delivered local = run(in_blocks(options_at(shards())));
  server_->clear_log();
  const Delivered remote = run(in_blocks(options_at(address())));
  EXPECT_EQ(remote.batches(), local.batches());
  EXPECT_NE(remote.batches(), run(options_at(address())).batches());
}

TEST_F(Servers, InBlocksBehindACacheAreAskedForShardsInPieces) {
  serve_files();
  static_cast<void>(run(options_at(address())));  // makes the indexes
  server_->clear_log();
  Tensors local;
  const Delivered of_directory = run(in_blocks(options_at(shards())), local.step());
  Tensors remote;
  const NodeOptions cached = in_blocks(cached_at(address(), std::int64_t{1} << 30));
  EXPECT_EQ(run(cached, remote.step()).batches(), of_directory.batches());
  EXPECT_EQ(remote.hashes(), local.hashes());
  EXPECT_EQ(reads().requests, 6U);  // a shard has fewer bytes than a piece
  EXPECT_EQ(reads().bytes, stored_bytes());
}

TEST_F(Servers, CompressedShardsBehindACacheAreFetchedOnceAndInflated) {
  serve_files();
  const std::int64_t packed = pack_shards();
  server_->set_rules({{{"fault", "status"}, {"status", 503}, {"share", 0.03}},
                      {{"fault", "cut"}, {"after", 300}, {"share", 0.03}}});
  Tensors local;
  const Delivered of_directory = run(options_at(shards()), local.step());
  Tensors remote;
  const NodeOptions cached = cached_at(packed_address(), std::int64_t{1} << 30);
  const Delivered of_server = run(cached, remote.step());
  EXPECT_EQ(of_server.batches(), of_directory.batches());
  EXPECT_EQ(of_server.plan_hashes(), of_directory.plan_hashes());
  EXPECT_EQ(remote.hashes(), local.hashes());
  EXPECT_EQ(local.hashes().size(), 2U * 2 * 2 * kSamples / 16);
  EXPECT_GE(reads().bytes, packed);
  EXPECT_LE(reads().bytes, packed + packed / 20);
  server_->clear_log();
  EXPECT_EQ(run(cached).batches(), of_directory.batches());
  EXPECT_EQ(reads().requests, 0U);
}

TEST_F(Servers, AnIndexOfCompressedShardsThatWasMadeOnADiskNeedsOnlyBlocksOfThem) {
  serve_files();
  pack_shards();
  const Delivered of_directory = run(options_at(shards()));
  static_cast<void>(run(options()));  // makes .isocost beside the shards
  server_->clear_log();
  NodeOptions remote = cached_at(packed_address(), std::int64_t{1} << 30);
  remote.decode.index_dir = scratch() / "copied";
  before_serving = [this](Node&) {
    for (const json& request : server_->requests()) {
      const std::string path = request.at("path").get<std::string>();
      if (path.find(".isocost") != std::string::npos) continue;
      EXPECT_LE(request.at("bytes").get<std::int64_t>(), 4096) << path;
    }
    EXPECT_GT(reads().bytes, 0);
  };
  EXPECT_EQ(run(remote).batches(), of_directory.batches());
}

TEST_F(Servers, ACompressedObjectThatIsStoredAgainWithItsBytesGoesOn) {
  serve_files();
  pack_shards();
  const Delivered before = run(cached_at(packed_address(), std::int64_t{1} << 30));
  NodeOptions options = cached_at(packed_address(), std::int64_t{1} << 30);
  options.decode.cache = scratch() / "another";
  before_serving = [this](Node&) {
    const std::filesystem::path shard = shards() / "shard-000003.tar.zst";
    std::filesystem::copy_file(shard, scratch() / "copy");
    std::filesystem::rename(scratch() / "copy", shard);  // with another entity tag
  };
  EXPECT_EQ(run(options).batches(), before.batches());
}

TEST_F(Servers, ACompressedObjectThatIsReplacedEndsTheJobBeforeItIsReadWhole) {
  serve_files();
  const std::int64_t packed = pack_shards();
  NodeOptions options = cached_at(packed_address(), std::int64_t{1} << 30);
  static_cast<void>(run(options));
  options.decode.cache = scratch() / "another";
  options.decode.io_timeout = std::chrono::seconds(2);
  before_serving = [this](Node&) {
    write_file(shards() / "shard-000003.tar.zst", zstd("other bytes"));
    server_->clear_log();
  };
  const auto ended = try_run(options, {});
  ASSERT_FALSE(ended.has_value());
  EXPECT_THAT(ended.error().message(), AllOf(HasSubstr("shard-000003.tar.zst"),
                                             HasSubstr("has changed since it was indexed")));
  EXPECT_LE(reads().bytes, packed + packed / 20);
}

TEST_F(Servers, ACacheWithoutRoomForCompressedShardsEndsTheStartWithWhatSuffices) {
  serve_files(960);
  pack_shards();
  const auto refused = try_run(cached_at(packed_address(), std::int64_t{1} << 20), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr("a cache of 1 MiB has no room"), HasSubstr("cache_size = "),
                    HasSubstr("shuffle = blocks")));
}

TEST_F(Servers, CompressedShardsInBlocksDeliverWhatTheDirectoryDelivers) {
  serve_files();
  pack_shards();
  Tensors local;
  const Delivered of_directory = run(in_blocks(options_at(shards())), local.step());
  Tensors remote;
  const NodeOptions cached = in_blocks(cached_at(packed_address(), std::int64_t{1} << 30));
  EXPECT_EQ(run(cached, remote.step()).batches(), of_directory.batches());
  EXPECT_EQ(remote.hashes(), local.hashes());
}

TEST_F(Servers, CompressedShardsWithoutACacheEndTheStart) {
  serve_files();
  pack_shards();
  const auto refused = try_run(options_at(packed_address()), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr(server_->address() + "shard-000000.tar.gz: it is compressed"),
                    HasSubstr("give a cache (cache = DIR)")));
  EXPECT_EQ(reads().requests, 0U);
}

TEST_F(Servers, AnObjectThatIsCompressedUnderTheNameOfAPlainOneEndsTheStart) {
  serve_files();
  const std::filesystem::path shard = shards() / "shard-000002.tar";
  write_file(shard, gzip(read_file(shard)));
  const auto refused = try_run(cached_at(address(), std::int64_t{1} << 30), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr("shard-000002.tar"), HasSubstr("call it .tar.gz or .tar.zst")));
}

TEST_F(Servers, ACacheWithoutRoomForTwoWindowsEndsTheStartWithWhatSuffices) {
  serve_files(960);
  NodeOptions options = cached_at(address(), std::int64_t{1} << 20);
  options.plan.shuffle = ShufflePolicy::kBlocks;
  options.plan.shuffle_shards = 20;
  const auto refused = try_run(options, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr("two windows of 20 shards"),
                    HasSubstr("a cache of 1 MiB has no room"), HasSubstr("fewer shuffle_shards")));
}

TEST_F(Servers, AnObjectThatIsReplacedWhileItIsReadEndsTheJobWithItsName) {
  serve_files();
  static_cast<void>(run(options_at(address())));
  NodeOptions options = options_at(address());
  options.decode.io_timeout = std::chrono::seconds(1);
  before_serving = [this](Node&) {
    const std::filesystem::path shard = shards() / "shard-000003.tar";
    std::filesystem::copy_file(shards() / "shard-000002.tar", shard,
                               std::filesystem::copy_options::overwrite_existing);
  };
  const auto ended = try_run(options, {});
  ASSERT_FALSE(ended.has_value());
  EXPECT_THAT(ended.error().message(), AllOf(HasSubstr(server_->address() + "shard-000003.tar"),
                                             HasSubstr("has changed since it was indexed")));
}

TEST_F(Servers, AnObjectThatIsStoredAgainWithItsBytesGoesOn) {
  serve_files();
  const Delivered before = run(options_at(address()));
  before_serving = [this](Node&) {
    const std::filesystem::path shard = shards() / "shard-000003.tar";
    const std::filesystem::path copy = scratch() / "copy.tar";
    std::filesystem::copy_file(shard, copy);
    std::filesystem::rename(copy, shard);  // with another time, and so another entity tag
  };
  const Delivered after = run(options_at(address()));
  EXPECT_EQ(after.batches(), before.batches());
}

TEST_F(Servers, AnObjectThatIsAbsentAtTheStartIsALostShard) {
  serve_files();
  std::filesystem::remove(shards() / "shard-000004.tar");
  const auto refused = try_run(options_at(address()), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(), AllOf(HasSubstr("shard-000004.tar"), HasSubstr("lost")));
  NodeOptions options = options_at(address());
  options.shards.allow_broken = "1";
  EXPECT_EQ(run(options).counts(0).size(), 80U);
}

TEST_F(Servers, TheirSecretsAreInNoMessage) {
  serve_files();
  std::string secret = address() + "?X-Amz-Signature=planted-secret";
  secret.insert(secret.find("127."), "user:planted-password@");
  NodeOptions options = cached_at(secret, std::int64_t{1} << 30);
  static_cast<void>(run(options));
  std::filesystem::remove(shards() / "shard-000004.tar");
  const auto refused = try_run(options, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(), Not(HasSubstr("planted")));
  EXPECT_THAT(log_.lines(), Each(Not(HasSubstr("planted"))));
  const std::vector<json> requests = server_->requests();
  EXPECT_THAT(requests.front().at("path").get<std::string>(), HasSubstr("planted-secret"));
  for (const auto& file : std::filesystem::recursive_directory_iterator(scratch() / "indexes")) {
    EXPECT_THAT(file.path().string(), Not(HasSubstr("planted")));
  }
  for (const auto& file : std::filesystem::directory_iterator(scratch() / "cache")) {
    EXPECT_THAT(file.path().string(), Not(HasSubstr("planted")));
    EXPECT_THAT(read_file(file.path()), Not(HasSubstr("planted")));
  }
}

TEST_F(Servers, APresignedListAsksForEachShardWithItsOwnQuery) {
  serve_files();
  std::ofstream list(scratch() / "list.txt");
  for (int i = 0; i < 6; ++i) {
    list << server_->address() << "shard-00000" << i << ".tar?sig=of-" << i << "\n";
  }
  list.close();
  EXPECT_EQ(run(options_at((scratch() / "list.txt").string())).counts(0).size(), 96U);
  for (const json& request : server_->requests()) {
    const std::string path = request.at("path");
    if (path.find(".isocost") != std::string::npos) continue;
    EXPECT_EQ(path.substr(path.find("shard-00000") + 11, 1), path.substr(path.size() - 1)) << path;
  }
}

TEST_F(Servers, AStopEndsAStartWhoseServerStalls) {
  serve_files();
  server_->set_rules({{{"fault", "stall"}, {"after", -1}, {"method", "GET"}}});
  std::stop_source stop;
  const std::jthread stopping([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    stop.request_stop();
  });
  const auto begun = std::chrono::steady_clock::now();
  const auto node = Node::create(options_at(address()), {}, node_log, {}, stop.get_token());
  ASSERT_FALSE(node.has_value());
  EXPECT_EQ(node.error().code(), ErrorCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
}

TEST_F(Servers, AServerThatIsAwayEndsTheStartWithoutAskingForAllShards) {
  serve_files();
  server_->set_rules({{{"fault", "status"}, {"status", 403}}});
  const auto refused = try_run(options_at(address()), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(), HasSubstr("access is denied"));
}

TEST_F(Servers, AMixtureOfADiskAndAServerDeliversBoth) {
  serve_files();
  std::ofstream(scratch() / "mixture.toml")
      << "[[source]]\nname = \"disk\"\npath = \"shards/shard-00000[012].tar\"\n"
         "[[source]]\nname = \"server\"\npath = \""
      << server_->address() << "shard-{000003..000005}.tar\"\n";
  NodeOptions defaults = options();
  defaults.data = (scratch() / "mixture.toml").string();
  defaults.plan.epochs = 1;
  defaults.decode.index_dir = scratch() / "indexes";
  const auto mixture = make_options({}, std::move(defaults));
  ASSERT_TRUE(mixture.has_value()) << mixture.error().message();
  const Delivered delivered = run(*mixture);
  EXPECT_EQ(delivered.counts(0).size(), 96U);
  for (const auto& [id, count] : delivered.counts(0)) EXPECT_EQ(count, 1) << id;
}

}  // namespace
}  // namespace isocost
