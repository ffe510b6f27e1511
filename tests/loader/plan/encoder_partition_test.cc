#include "loader/plan/internal/encoder_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace isocost {
namespace {

using testing::ElementsAre;
using Slots = std::vector<std::string>;  // "bin.sample bin.sample ..." of each encoder microbatch

Load load_of(std::int64_t vision, std::int64_t audio) {
  Load load;
  if (vision > 0) load[CostModule::kVision].add_sequence(vision);
  if (audio > 0) load[CostModule::kAudio].add_sequence(audio);
  load[CostModule::kLlm].add_sequence(100);
  return load;
}

// Two LLM replicas of two microbatches. Samples 0 and 4 have no media.
class EncoderPartitionTest : public testing::Test {
 protected:
  EncoderPartitionTest() {
    plan_.microbatches = 2;
    plan_.bins.resize(4);
    const std::vector<std::vector<std::uint32_t>> bins = {{0, 1, 6}, {2}, {3, 4}, {5}};
    for (std::size_t bin = 0; bin < bins.size(); ++bin) {
      for (const std::uint32_t index : bins[bin]) plan_.bins[bin].samples.push_back({index, 1.0F});
    }
  }

  static std::vector<Slots> text(const EncoderPartition& partition) {
    std::vector<Slots> replicas;
    for (const auto& replica : partition) {
      Slots& slots = replicas.emplace_back();
      for (const auto& microbatch : replica) {
        std::string& samples = slots.emplace_back();
        for (const BinSample& at : microbatch) {
          samples += (samples.empty() ? "" : " ") + std::to_string(at.bin) + "." +
                     std::to_string(at.sample);
        }
      }
    }
    return replicas;
  }

  StepPlan plan_;
  const std::vector<Load> loads_ = {load_of(0, 0), load_of(4, 0), load_of(6, 3), load_of(0, 5),
                                    load_of(0, 0), load_of(2, 0), load_of(8, 2)};
};

TEST_F(EncoderPartitionTest, CoupledMicrobatchesAreTheLlms) {
  EXPECT_THAT(text(coupled_partition(plan_, loads_, 1)),
              ElementsAre(Slots{"0.1 0.2", "2.0", "1.0", "3.0"}));
  EXPECT_THAT(text(coupled_partition(plan_, loads_, 2)),
              ElementsAre(Slots{"0.1 0.2", "1.0"}, Slots{"2.0", "3.0"}));
}

TEST_F(EncoderPartitionTest, EveryReplicaHasAMicrobatch) {
  EXPECT_THAT(text(coupled_partition(plan_, loads_, 5)),
              ElementsAre(Slots{"0.1 0.2"}, Slots{"2.0"}, Slots{"1.0"}, Slots{"3.0"}, Slots{""}));
}

TEST_F(EncoderPartitionTest, DecoupledMicrobatchesAreThoseOfThePlan) {
  EXPECT_THAT(text(decoupled_partition(plan_, {{{6, 3}, {2}}, {{5, 1}}})),
              ElementsAre(Slots{"0.2 2.0", "1.0"}, Slots{"3.0 0.1"}));
}

TEST_F(EncoderPartitionTest, MicrobatchesHoldTheSamplesWithTheirWeights) {
  plan_.bins[0].samples[2].weight = 0;
  const auto encoder =
      encoder_microbatches(plan_, decoupled_partition(plan_, {{{6, 3}, {2}}, {{5, 1}}}));
  ASSERT_EQ(encoder.size(), 2U);
  ASSERT_EQ(encoder[0].size(), 2U);
  const std::vector<PlannedSample>& samples = encoder[0][0].samples;
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].index, 6U);
  EXPECT_EQ(samples[0].weight, 0);
  EXPECT_EQ(samples[1].index, 3U);
  EXPECT_EQ(samples[1].weight, 1);
}

TEST_F(EncoderPartitionTest, RoutesNameTheUnitsOnBothSides) {
  const EncoderPartition partition = decoupled_partition(plan_, {{{6, 3}, {2}}, {{5, 1}}});
  plan_.encoder = encoder_microbatches(plan_, partition);
  route(loads_, partition, plan_);
  // Module, sample, first unit, units; then replica, microbatch and first unit of the other side.
  EXPECT_THAT(plan_.encoder[0][0].routes, ElementsAre(Route{CostModule::kVision, 0, 0, 8, 0, 0, 4},
                                                      Route{CostModule::kAudio, 0, 0, 2, 0, 0, 0},
                                                      Route{CostModule::kAudio, 1, 2, 5, 1, 0, 0}));
  EXPECT_THAT(plan_.encoder[0][1].routes, ElementsAre(Route{CostModule::kVision, 0, 0, 6, 0, 1, 0},
                                                      Route{CostModule::kAudio, 0, 0, 3, 0, 1, 0}));
  EXPECT_THAT(plan_.encoder[1][0].routes,
              ElementsAre(Route{CostModule::kVision, 0, 0, 2, 1, 1, 0},
                          Route{CostModule::kVision, 1, 2, 4, 0, 0, 0}));
  // By sample and module, whichever encoder replica they come from.
  EXPECT_THAT(plan_.bins[0].routes, ElementsAre(Route{CostModule::kVision, 1, 0, 4, 1, 0, 2},
                                                Route{CostModule::kVision, 2, 4, 8, 0, 0, 0},
                                                Route{CostModule::kAudio, 2, 0, 2, 0, 0, 0}));
  EXPECT_THAT(plan_.bins[2].routes, ElementsAre(Route{CostModule::kAudio, 0, 0, 5, 0, 0, 2}));
}

}  // namespace
}  // namespace isocost
