#include "balancer/layout/cluster.h"

#include <gtest/gtest.h>

namespace isocost {
namespace {

// Eight ranks on a machine, each with a link of 12.5 GB/s.
double gb_per_s(const RankGroups& groups) { return Cluster{}.ring_bytes_per_s(groups) / 1e9; }

TEST(Cluster, AGroupOnOneMachineUsesItsFastLinks) {
  EXPECT_DOUBLE_EQ(gb_per_s({.members = 8}), 300);
  EXPECT_DOUBLE_EQ(gb_per_s({.members = 2, .stride = 4, .blocks = 16}), 300);
  EXPECT_DOUBLE_EQ(gb_per_s({.members = 6}), 300);
}

TEST(Cluster, BetweenMachinesTheMembersOfAMachineShareItsLinks) {
  EXPECT_DOUBLE_EQ(gb_per_s({.members = 64}), 8 * 12.5);
  EXPECT_DOUBLE_EQ(gb_per_s({.members = 16, .stride = 4}), 2 * 12.5);
  EXPECT_DOUBLE_EQ(gb_per_s({.members = 4, .stride = 8}), 12.5);
  EXPECT_DOUBLE_EQ(gb_per_s({.members = 4, .stride = 16}), 12.5);
}

TEST(Cluster, TheMachineWithTheFewestMembersLimitsARing) {
  EXPECT_DOUBLE_EQ(gb_per_s({.members = 12}), 4 * 12.5);
  EXPECT_DOUBLE_EQ(gb_per_s({.members = 13, .stride = 4}), 12.5);
  EXPECT_DOUBLE_EQ(gb_per_s({.members = 6, .blocks = 2}), 2 * 12.5) << "ranks 6 to 11";
  EXPECT_DOUBLE_EQ(gb_per_s({.members = 12, .blocks = 2}), 4 * 12.5);
}

TEST(Cluster, LinksBetweenMachinesAreNoFasterThanThoseWithin) {
  Cluster cluster;
  cluster.network_bytes_per_s = 100e9;
  EXPECT_DOUBLE_EQ(cluster.ring_bytes_per_s({.members = 64}), cluster.node_bytes_per_s);
}

TEST(Cluster, ReadsAnInterconnect) {
  const auto cluster =
      Cluster::parse_interconnect("node=450GB/s,network=50GB/s,latency=5us,gpus-per-node=4");
  ASSERT_TRUE(cluster.has_value()) << cluster.error().message();
  EXPECT_DOUBLE_EQ(cluster->node_bytes_per_s, 450e9);
  EXPECT_DOUBLE_EQ(cluster->network_bytes_per_s, 50e9);
  EXPECT_DOUBLE_EQ(cluster->latency_s, 5e-6);
  EXPECT_EQ(cluster->gpus_per_node, 4U);
  EXPECT_TRUE(Cluster::parse_interconnect("").has_value());
  for (const char* wrong : {"node", "node=", "node=5", "node=-5GB/s", "node=5XB/s", "latency=5",
                            "nod=5GB/s", "gpus-per-node=0", "node=nanGB/s", "node=1e999GB/s"}) {
    const auto refused = Cluster::parse_interconnect(wrong);
    ASSERT_FALSE(refused.has_value()) << wrong;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace isocost
