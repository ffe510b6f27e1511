// TorchLoader against the real server over loopback: one microbatch, an end of epoch.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/trainer_adapter/torch/hand_made.h"
#include "trainer_adapter/torch/loader.h"
#include "transport/server.h"

namespace isocost {
namespace {

/// Sends one prepared microbatch as soon as the client has credit for it, then the end.
class OneMicrobatchNode {
 public:
  explicit OneMicrobatchNode(const Microbatch& microbatch) : microbatch_(microbatch) {
    ServerOptions options;
    options.bind = "tcp://127.0.0.1:*";
    auto server = Server::create(options, admit_ranks({}),
                                 [this](const ServerEvent& event) { on(event); }, {});
    server_ = std::move(server).value();
    const std::lock_guard lock(mutex_);
    ready_ = true;
    changed_.notify_all();
  }

  const std::string& endpoint() const { return server_->endpoint(); }

  /// What was reported, or nothing within the deadline.
  std::optional<Report> wait_for_report() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [this] { return report_.has_value(); });
    return report_;
  }

 private:
  void on(const ServerEvent& event) {
    if (const auto* reported = std::get_if<Reported>(&event)) {
      const std::lock_guard lock(mutex_);
      report_ = reported->report;
      changed_.notify_all();
    } else if (std::holds_alternative<CreditGranted>(event) && !std::exchange(sent_, true)) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ready_; });  // until `server_` is set, at once
      send();
    }
  }

  void send() {
    MicrobatchHeader header = microbatch_.header;
    Fragment fragment;
    for (const NamedTensor& named : microbatch_.tensors) {
      // What follows from the lengths and weights is the client's to make.
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
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false;
  bool sent_ = false;
  std::optional<Report> report_;
  std::unique_ptr<Server> server_;  // last: its thread ends before what it uses
};

TEST(TorchClient, TensorsLieInTheClientsPoolAndOutliveIt) {
  BufferPool pool;
  Random random(3);
  const HandMadeSample sample = make_sample(4, {{2, 4}}, {8}, 6, random);
  const Microbatch microbatch = assemble({&sample, 1}, sample.label_tokens(), pool);
  OneMicrobatchNode node(microbatch);
  ClientOptions options;
  options.endpoint = node.endpoint();
  auto loader = TorchLoader::connect(options);
  ASSERT_TRUE(loader.has_value()) << loader.error().to_string();

  at::Tensor mel;
  {
    auto next = loader->next({});
    ASSERT_TRUE(next.has_value()) << next.error().to_string();
    ASSERT_TRUE(next->has_value());
    const TorchMicrobatch& received = **next;
    for (const NamedTensor& sent : microbatch.tensors) {
      const at::Tensor tensor = received.find(sent.name);
      ASSERT_TRUE(tensor.defined()) << sent.name;
      EXPECT_TRUE(loader->client().pool().owns(tensor.data_ptr())) << sent.name;
      EXPECT_TRUE(tensor.equal(to_torch(sent.tensor))) << sent.name;
    }
    ASSERT_TRUE(loader->report(received, {0.25, -1, 0.5}).has_value());
    mel = received.find("audio.mel");
  }
  auto end = loader->next({});
  ASSERT_TRUE(end.has_value()) << end.error().to_string();
  EXPECT_FALSE(end->has_value());
  ASSERT_TRUE(loader->client().epoch_end().has_value());

  const std::optional<Report> report = node.wait_for_report();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->seconds, (std::array<double, kModules>{0.25, -1, 0.5}));
  loader = Error(ErrorCode::kCancelled, "the client is gone");
  EXPECT_TRUE(mel.equal(at::tensor(sample.mel).view({-1, 128})));
}

}  // namespace
}  // namespace isocost
