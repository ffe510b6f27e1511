// A node serves a layout to real clients at all of its receivers. Each receives only what its stage
// consumes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "balancer/layout/place.h"
#include "base/fingerprint.h"
#include "base/mutex.h"
#include "tests/e2e/loop_fixture.h"

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::set<std::string> names(const Microbatch& microbatch) {
  std::set<std::string> names;
  for (const NamedTensor& named : microbatch.tensors) names.insert(named.name);
  return names;
}

std::int64_t sent_bytes(const Microbatch& microbatch) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < microbatch.header.tensors.size(); ++i) {
    bytes += static_cast<std::int64_t>(microbatch.tensors[i].tensor.bytes().size());
  }
  return bytes;
}

class LayoutLoop : public LoopTest {
 protected:
  void SetUp() override {
    layout_.encoder = {2, 1, 2};
    layout_.llm = {1, 3, 1};
    layout_.microbatches = 3;
  }

  NodeOptions serve() const {
    NodeOptions options = this->options(0);
    options.plan.use_layout(std::make_shared<const Layout>(layout_), "layout.json");
    return options;
  }

  // The deliveries to the client at a receiver.
  struct AtReceiver {
    Place place;
    std::vector<MicrobatchHeader> headers;
    std::set<std::string> tensors;
    std::int64_t bytes = 0;
  };
  std::vector<AtReceiver> run_layout(const NodeOptions& options, NodeSummary* summary = nullptr) {
    Mutex mutex;
    std::vector<AtReceiver> at(receivers(layout_));
    for (std::size_t i = 0; i < at.size(); ++i) at[i].place = place_of_receiver(layout_, i);
    const Delivered delivered =
        run(options, static_cast<std::int64_t>(at.size()),
            [&](std::int64_t receiver, Client& client, const Microbatch& microbatch) {
              const MutexLock lock(mutex);
              AtReceiver& here = at.at(static_cast<std::size_t>(receiver));
              here.headers.push_back(microbatch.header);
              here.tensors.merge(names(microbatch));
              here.bytes += sent_bytes(microbatch);
              Report report{microbatch.header.position, microbatch.header.predicted_seconds};
              EXPECT_TRUE(client.report(report).has_value());
            });
    if (summary != nullptr) *summary = delivered.summary;
    return at;
  }

  Layout layout_;
};

TEST_F(LayoutLoop, AStageReceivesWhatItConsumes) {
  make_dataset(48);
  NodeSummary summary;
  const std::vector<AtReceiver> at = run_layout(serve(), &summary);
  EXPECT_THAT(at[0].tensors,
              ElementsAre("audio.cu_seqlens", "audio.lengths", "audio.mel", "vision.cu_seqlens",
                          "vision.grids", "vision.lengths", "vision.patches"));
  EXPECT_EQ(at[1].tensors, at[0].tensors);
  EXPECT_THAT(at[2].tensors,
              ElementsAre("llm.cu_seqlens", "llm.input_ids", "llm.lengths", "llm.position_ids"));
  EXPECT_THAT(at[3].tensors, ElementsAre("llm.cu_seqlens", "llm.lengths"));
  EXPECT_THAT(at[4].tensors,
              ElementsAre("llm.cu_seqlens", "llm.labels", "llm.lengths", "llm.loss_weights"));
  EXPECT_EQ(summary.planned, 48U);
  EXPECT_EQ(summary.delivered, 48U);  // by the stages that predict labels
  EXPECT_EQ(summary.steps_delivered, summary.steps);
  EXPECT_EQ(summary.measurements_rejected, 0);
  EXPECT_EQ(summary.decoded_again, 0U);

  // Together they receive what a rank that reads everything receives; only lengths are sent twice.
  std::int64_t staged = 0;
  for (const AtReceiver& receiver : at) staged += receiver.bytes;
  NodeOptions whole = options(1);
  whole.plan.microbatches = 3;
  std::int64_t alone = 0;
  run(whole, [&](std::int64_t, Client&, const Microbatch& microbatch) {
    alone += sent_bytes(microbatch);
  });
  EXPECT_GE(staged, alone);
  EXPECT_LE(static_cast<double>(staged), 1.02 * static_cast<double>(alone));
}

// Each receiver's tensors by position, over two epochs.
TEST_F(LayoutLoop, TensorsAreTheSameInSharedMemoryAndOverTheSocket) {
  using Tensors = std::map<std::string, std::vector<std::byte>>;
  make_dataset(40);
  const auto receive = [this](bool shared) {
    NodeOptions options = serve();
    options.plan.epochs = 2;
    options.service.shared_memory = shared;
    Mutex mutex;
    std::map<std::pair<std::int64_t, Position>, Tensors> received;
    run(options, static_cast<std::int64_t>(receivers(layout_)),
        [&](std::int64_t receiver, Client& client, const Microbatch& microbatch) {
          const MutexLock lock(mutex);
          Tensors& tensors = received[{receiver, microbatch.header.position}];
          for (const NamedTensor& named : microbatch.tensors) {
            const auto bytes = named.tensor.bytes();
            tensors[named.name] = {bytes.begin(), bytes.end()};
          }
          EXPECT_EQ(client.bytes_copied() == 0, shared || sent_bytes(microbatch) == 0);
        });
    return received;
  };
  const auto copied = receive(false);
  EXPECT_GT(copied.size(), 5U);
  EXPECT_EQ(receive(true), copied);
}

TEST_F(LayoutLoop, EveryModuleReceivesEachSampleOnce) {
  make_dataset(53);  // three whole batches and a tail of five
  for (const std::size_t encoders : {1, 2, 3}) {
    for (const std::size_t replicas : {1, 2}) {
      layout_.encoder.data = encoders;
      layout_.llm.data = replicas;
      layout_.llm.pipeline = 2;
      const std::vector<AtReceiver> at = run_layout(serve());
      std::map<std::pair<LayoutModule, std::size_t>, std::map<std::uint64_t, int>> seen;
      for (const AtReceiver& receiver : at) {
        for (const MicrobatchHeader& header : receiver.headers) {
          for (const SampleEntry& sample : header.samples) {
            seen[{receiver.place.module, receiver.place.stage}][sample.id] += 1;
          }
        }
      }
      EXPECT_EQ((seen[{LayoutModule::kLlm, 0}].size()), 53U);
      EXPECT_EQ((seen[{LayoutModule::kLlm, 0}]), (seen[{LayoutModule::kLlm, 1}]));
      for (const auto& [id, times] : seen[{LayoutModule::kLlm, 0}]) {
        EXPECT_EQ(times, 1) << id;
        // Every fifth sample has only text.
        EXPECT_EQ((seen[{LayoutModule::kEncoder, 0}].count(id)), 1U - (id % 5 == 3 ? 1U : 0U));
      }
    }
  }
}

TEST_F(LayoutLoop, ATrainerWithAnotherLayoutIsRefused) {
  make_dataset(16);
  const auto node = Node::create(serve(), {}, {}).value();
  ClientOptions options;
  options.endpoint = node->endpoint();
  options.layout = Fingerprint::of("another");
  const auto client = Client::connect(options);
  ASSERT_FALSE(client.has_value());
  EXPECT_THAT(client.error().message(), HasSubstr("another layout than the node"));
  options.layout = 0;
  const auto without = Client::connect(options);
  ASSERT_FALSE(without.has_value());
  EXPECT_THAT(without.error().message(), HasSubstr("has no layout, but the node has one"));
  options.layout = layout_.fingerprint();
  EXPECT_TRUE(Client::connect(options).has_value());
  options.rank = 7;
  EXPECT_FALSE(Client::connect(options).has_value());
}

TEST_F(LayoutLoop, ASecondClientAtAPlaceIsRefusedByName) {
  make_dataset(16);
  NodeOptions options = serve();
  options.service.heartbeat_timeout = std::chrono::seconds(2);
  const auto node = Node::create(options, {}, {}).value();
  ClientOptions at_receiver;
  at_receiver.endpoint = node->endpoint();
  at_receiver.rank = 3;
  at_receiver.layout = layout_.fingerprint();
  const auto first = Client::connect(at_receiver);
  ASSERT_TRUE(first.has_value());
  const auto second = Client::connect(at_receiver);
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().message(),
              HasSubstr("llm, data 0, stage 1, tensor 0 is taken by another client"));
}

TEST_F(LayoutLoop, ASampleBeyondAStagesMemoryIsListed) {
  make_dataset(40);  // the last is a video
  layout_.encoder = {1, 1, 1};
  layout_.activation_caps.llm_bytes = std::int64_t{100} << 20;
  NodeOptions lenient = serve();
  lenient.bad_samples.max = "100%";
  NodeSummary summary;
  run_layout(lenient, &summary);
  EXPECT_GT(summary.bad, 0U);
  EXPECT_LT(summary.bad, 40U);
  std::ifstream list(scratch() / "bad.jsonl");
  const std::string text((std::istreambuf_iterator<char>(list)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, HasSubstr("activation_caps.llm_bytes is 104857600"));
}

}  // namespace
}  // namespace isocost
