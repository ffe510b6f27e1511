// TorchLoader against the real server over loopback: it receives one microbatch and an end of
// epoch, alone and as one of two tensor ranks that are connected by gloo.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "tests/support/admit_ranks.h"
#include "tests/trainer_adapter/torch/hand_made.h"
#include "trainer_adapter/replicas.h"
#include "trainer_adapter/torch/torch_loader.h"
#include "transport/zmq/server.h"

namespace isocost {
namespace {

/// Sends one prepared microbatch as soon as the client has credit for it, then the end.
class OneMicrobatchNode {
 public:
  explicit OneMicrobatchNode(const Microbatch& microbatch) : microbatch_(microbatch) {
    ServerOptions options;
    options.bind = "tcp://127.0.0.1:*";
    auto server = Server::create(options, admit_ranks({}),
                                 [this](const ClientEvent& event) { on(event); }, {});
    server_ = std::move(server).value();
    const MutexLock lock(mutex_);
    ready_ = true;
    changed_.notify_all();
  }

  const std::string& endpoint() const { return server_->endpoint(); }

  /// Returns what was reported, or nothing if the deadline has passed.
  std::optional<Report> wait_for_report() {
    const MutexLock lock(mutex_);
    changed_.wait_for(mutex_, std::chrono::seconds(20),
                      [this]() ISOCOST_REQUIRES(mutex_) { return report_.has_value(); });
    return report_;
  }

 private:
  void on(const ClientEvent& event) {
    if (const auto* reported = std::get_if<Reported>(&event)) {
      const MutexLock lock(mutex_);
      report_ = reported->report;
      changed_.notify_all();
    } else if (std::holds_alternative<CreditGranted>(event) && !std::exchange(sent_, true)) {
      const MutexLock lock(mutex_);
      changed_.wait(mutex_, [this]() ISOCOST_REQUIRES(mutex_) {
        return ready_;
      });  // `server_` is about to be set
      send();
    }
  }

  void send() {
    MicrobatchHeader header = microbatch_.header;
    Fragment fragment;
    for (const NamedTensor& named : microbatch_.tensors) {
      // The client makes the tensors that follow from lengths and weights.
      if (named.name.ends_with(".cu_seqlens") || named.name.ends_with(".loss_weights")) continue;
      header.tensors.push_back({named.name, named.tensor.dtype, named.tensor.shape});
      header.rows.push_back(static_cast<std::uint32_t>(named.tensor.shape.front()));
      fragment.tensors.push_back(named);
    }
    server_->begin(0, header);
    server_->fragment(0, std::move(fragment), nullptr);
    server_->epoch_end(0, EpochEnd{0, 1, 1, 0, 0, true});
  }

  Microbatch microbatch_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool ready_ ISOCOST_GUARDED_BY(mutex_) = false;
  bool sent_ = false;
  std::optional<Report> report_ ISOCOST_GUARDED_BY(mutex_);
  std::unique_ptr<Server> server_;  // last: its thread ends before what it uses
};

TEST(TorchClient, TensorsLieInTheClientsPoolAndOutliveIt) {
  BufferPool pool;
  Random random(3);
  const HandMadeSample sample = make_sample(4, {{2, 4}}, {8}, 6, random);
  const Microbatch microbatch = assemble({&sample, 1}, sample.label_tokens(), pool);
  OneMicrobatchNode node(microbatch);
  LoaderOptions options;
  options.endpoint = node.endpoint();
  auto loader = std::make_unique<TorchLoader>(options);

  at::Tensor mel;
  {
    const std::optional<TorchMicrobatch> next = loader->next();
    ASSERT_TRUE(next.has_value());
    const TorchMicrobatch& received = *next;
    for (const NamedTensor& sent : microbatch.tensors) {
      const at::Tensor tensor = received[argument_name(sent.name)];
      EXPECT_TRUE(loader->client().pool().owns(tensor.data_ptr())) << sent.name;
      EXPECT_TRUE(tensor.equal(to_torch(sent.tensor))) << sent.name;
    }
    loader->report(received, {0.25, -1, 0.5});
    mel = received["audio_mel"];
  }
  EXPECT_FALSE(loader->next().has_value());
  ASSERT_TRUE(loader->epoch_end().has_value());

  const std::optional<Report> report = node.wait_for_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->seconds, (std::array<double, kModules>{0.25, -1, 0.5}));
  loader.reset();
  EXPECT_TRUE(mel.equal(at::tensor(sample.mel).view({-1, 128})));
}

/// One of two tensor ranks, each of which has its own thread.
class TensorRank {
 public:
  TensorRank(const c10::intrusive_ptr<c10d::Store>& store, int rank) : rank_(rank) {
    auto gloo = c10d::ProcessGroupGloo::Options::create();
    gloo->timeout = std::chrono::seconds(20);
    gloo->threads = 1;
    gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, 2, gloo);
  }

  Result<std::unique_ptr<Client>> connect(const ClientOptions& options) {
    return connect_replica(
        options, {static_cast<std::size_t>(rank_), [this](auto bytes) -> Status {
                    broadcasts_ += 1;
                    std::vector<at::Tensor> tensors{at::from_blob(
                        bytes.data(), {static_cast<std::int64_t>(bytes.size())}, at::kByte)};
                    gloo_->broadcast(tensors)->wait();
                    return {};
                  }});
  }

  int broadcasts() const { return broadcasts_; }

 private:
  int rank_;
  int broadcasts_ = 0;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
};

// Runs both ranks at once, each on its own thread.
void on_both(const std::function<void(TensorRank&, int)>& act) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::array<std::jthread, 2> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.at(static_cast<std::size_t>(rank)) = std::jthread([&, rank] {
      TensorRank member(store, rank);
      act(member, rank);
    });
  }
}

TEST(TorchClient, TensorRanksGetTheSameBytesWhichAreSentOnce) {
  BufferPool pool;
  Random random(7);
  const HandMadeSample sample = make_sample(4, {{2, 4}, {4, 4}}, {8}, 6, random);
  const Microbatch microbatch = assemble({&sample, 1}, sample.label_tokens(), pool);
  OneMicrobatchNode node(microbatch);
  ClientOptions options;
  options.endpoint = node.endpoint();
  std::array<std::int64_t, 2> copied{};
  on_both([&](TensorRank& member, int rank) {
    auto client = member.connect(options);
    ASSERT_TRUE(client.has_value()) << client.error().to_string();
    TorchLoader loader(*std::move(client));
    const std::optional<TorchMicrobatch> next = loader.next();
    ASSERT_TRUE(next.has_value());
    const TorchMicrobatch& received = *next;
    EXPECT_EQ(received.tensors.size(), microbatch.tensors.size());
    for (const NamedTensor& sent : microbatch.tensors) {
      const at::Tensor tensor = received[argument_name(sent.name)];
      EXPECT_TRUE(tensor.equal(to_torch(sent.tensor))) << sent.name << ", rank " << rank;
      EXPECT_TRUE(loader.client().pool().owns(tensor.data_ptr())) << sent.name;
    }
    EXPECT_EQ(received.header.samples.size(), 1);
    loader.report(received, {rank == 0 ? 0.25 : 99, -1, 0.5});
    EXPECT_FALSE(loader.next().has_value());
    EXPECT_TRUE(loader.epoch_end().has_value());
    copied.at(static_cast<std::size_t>(rank)) = loader.client().bytes_copied();
    loader.close();
  });
  std::int64_t announced = 0;
  for (const NamedTensor& sent : microbatch.tensors) {
    if (sent.name.ends_with(".cu_seqlens") || sent.name.ends_with(".loss_weights")) continue;
    announced += sent.tensor.size_bytes();
  }
  EXPECT_EQ(copied, (std::array<std::int64_t, 2>{announced, 0}));
  const std::optional<Report> report = node.wait_for_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->seconds.front(), 0.25);
}

TEST(TorchClient, TensorRanksLearnWhyTheFirstWasRefused) {
  OneMicrobatchNode node(Microbatch{});
  ClientOptions options;
  options.endpoint = node.endpoint();
  options.rank = 3;
  on_both([&](TensorRank& member, int rank) {
    const auto client = member.connect(options);
    ASSERT_FALSE(client.has_value());
    EXPECT_EQ(client.error().code(), ErrorCode::kInvalidArgument) << "rank " << rank;
    EXPECT_NE(client.error().message().find("rank 3"), std::string::npos)
        << client.error().message();
    EXPECT_EQ(member.broadcasts(), 2);
  });
}

// A microbatch that was not broadcast is not acknowledged, and later calls fail as well.
TEST(TorchClient, AFailedBroadcastEndsTheGroup) {
  BufferPool pool;
  Random random(7);
  const HandMadeSample sample = make_sample(4, {{2, 4}}, {8}, 6, random);
  OneMicrobatchNode node(assemble({&sample, 1}, sample.label_tokens(), pool));
  ClientOptions options;
  options.endpoint = node.endpoint();
  constexpr int kOfWelcomeAndHeader = 4;
  int broadcasts = 0;
  auto client = connect_replica(options, {0, [&](std::span<std::byte>) -> Status {
                                            if (++broadcasts <= kOfWelcomeAndHeader) return {};
                                            return Error(ErrorCode::kUnavailable, "a rank left");
                                          }});
  ASSERT_TRUE(client.has_value()) << client.error().to_string();
  for (int again = 0; again < 2; ++again) {
    const auto next = (*client)->next({});
    ASSERT_FALSE(next.has_value());
    EXPECT_EQ(next.error().message(), "a rank left");
    EXPECT_EQ(broadcasts, kOfWelcomeAndHeader + 1);
  }
  (*client)->close();
  EXPECT_EQ((*client)->next({}).error().code(), ErrorCode::kCancelled);
}

// A rank that makes another call than the others gets an error instead of reading a wrong size.
TEST(TorchClient, AnInvalidBroadcastIsRefused) {
  const auto with_length = [](std::uint64_t length) {
    return connect_replica({}, {1, [length](std::span<std::byte> bytes) -> Status {
                                  const auto raw = std::bit_cast<std::array<std::byte, 8>>(length);
                                  std::copy_n(raw.begin(), std::min(bytes.size(), raw.size()),
                                              bytes.begin());
                                  return {};
                                }});
  };
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{8}, ~std::uint64_t{0}}) {
    const auto client = with_length(length);
    ASSERT_FALSE(client.has_value());
    EXPECT_EQ(client.error().code(), ErrorCode::kCorrupt) << length;
  }
}

}  // namespace
}  // namespace isocost
