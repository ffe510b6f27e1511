// Coordinator, home and ranks beside each other, with processes that die, freeze and come back, and
// a network that loses, delays and reorders between connections: see Simulation for what is
// checked. ISOCOST_SEEDS sets the number of seeds, ISOCOST_FIRST_SEED the first one.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/loader/node/simulation/simulation.h"

namespace isocost {
namespace {

std::uint64_t number_of(const char* variable, std::uint64_t standard) {
  const char* const value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? standard : std::strtoull(value, nullptr, 10);
}

// Counts that ten thousand seeds reach at least; a simulation that meets nothing shows nothing.
const SimulationCounts& least_of_ten_thousand() {
  static const SimulationCounts the_least = {{"acknowledgements", 200'000},
                                             {"freezes", 15'000},
                                             {"items trained", 200'000},
                                             {"jobs", 15'000},
                                             {"joins", 60'000},
                                             {"joins that continue", 2'000},
                                             {"kills", 15'000},
                                             {"late hellos", 1'500},
                                             {"lost connections", 30'000},
                                             {"ranks replaced", 3'000},
                                             {"restarts", 15'000},
                                             {"second clients", 3'000},
                                             {"stalls", 10'000}};
  return the_least;
}

TEST(SimulationTest, EveryMicrobatchIsTrainedInOrderByOneClientOfItsRank) {
  const std::uint64_t first = number_of("ISOCOST_FIRST_SEED", 1);
  const std::uint64_t seeds = number_of("ISOCOST_SEEDS", ISOCOST_SIMULATED_SEEDS);
  SimulationCounts counts;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    Simulation simulation(seed);
    const std::string wrong = simulation.play();
    ASSERT_TRUE(wrong.empty()) << "seed " << seed << wrong;
    for (const auto& [name, count] : simulation.counts()) counts[name] += count;
  }
  std::string all;
  for (const auto& [name, count] : counts) all += ", " + std::to_string(count) + " " + name;
  std::printf("%s seeds%s\n", std::to_string(seeds).c_str(), all.c_str());
  if (seeds < 10'000) return;
  for (const auto& [name, least] : least_of_ten_thousand()) EXPECT_GE(counts[name], least) << name;
}

}  // namespace
}  // namespace isocost
