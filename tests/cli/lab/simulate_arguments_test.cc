#include "cli/lab/simulate_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/scratch_directory.h"
#include "cli/lab/simulate_layout.h"

namespace isocost::cli {
namespace {

using testing::HasSubstr;

// A mean sample whose LLM takes three times the seconds of the encoder.
constexpr SampleCost kMean{.encoder_s = 1, .llm_s = 3, .encoder_units = 1, .llm_units = 1};

SimulateArguments parsed(const std::string& flags) {
  SimulateArguments arguments;
  CLI::App app;
  arguments.add_to(app);
  app.parse("--trace a.csv " + flags);
  return arguments;
}

Result<Layout> layout(const std::string& flags) {
  SimulateArguments arguments = parsed(flags);
  JobModel job;
  return layout_of(arguments, kMean, job);
}

std::string refusal(const std::string& flags) {
  const auto refused = layout(flags);
  return refused ? "accepted" : refused.error().message();
}

TEST(SimulateArguments, FlagsAreTheLayout) {
  const Layout given =
      layout("--dp 3 --pp 6 --encoder-pp 2 --tp 2 --microbatches 5 --schedule gpipe").value();
  EXPECT_EQ(given.encoder, (ModuleDegrees{2, 2, 3}));
  EXPECT_EQ(given.llm, (ModuleDegrees{2, 4, 3}));
  EXPECT_EQ(given.microbatches, 5U);
  EXPECT_EQ(given.schedule, Schedule::kGpipe);
}

TEST(SimulateArguments, WhatIsLeftOutIsChosen) {
  const Layout usual = layout("--pp 8").value();
  EXPECT_EQ(usual.encoder.pipeline, 2U);  // a quarter of the seconds, of eight stages
  EXPECT_EQ(usual.encoder.tensor, 4U);    // divides the heads of both modules
  EXPECT_EQ(usual.microbatches, 16U);
  EXPECT_EQ(usual.chunks, 1U);
  const Layout interleaved = layout("--pp 8 --encoder-pp 1 --schedule interleaved").value();
  EXPECT_EQ(interleaved.chunks, 2U);
  EXPECT_EQ(interleaved.microbatches, 21U);  // the next multiple of seven LLM stages
}

TEST(SimulateArguments, OneStageIsShared) {
  const Layout shared = layout("--pp 1").value();
  EXPECT_EQ(shared.encoder_place, EncoderPlacement::kLlmRanks);
  EXPECT_EQ(shared.encoder, shared.llm);
  EXPECT_THAT(refusal("--pp 1 --encoder-pp 1"), HasSubstr("both modules share the one stage"));
}

TEST(SimulateArguments, RefusesDegreesThatDoNotFit) {
  EXPECT_THAT(refusal("--pp 4 --encoder-pp 4"), HasSubstr("it must be below --pp (4)"));
  EXPECT_THAT(refusal("--schedule round"), HasSubstr("must be gpipe, 1f1b, interleaved or zb-h1"));
  EXPECT_THROW(parsed("--dp -1"), CLI::ValidationError);
  EXPECT_THROW(parsed("--evaluations 1e9"), CLI::ValidationError);
}

TEST(SimulateArguments, ALayoutFileGivesInterconnectAndCapsUnlessFlagsDo) {
  const auto scratch = ScratchDirectory::create("isocost-lab-test").value();
  const std::string file = scratch / "layout.json";
  const Layout saved{.encoder = {1, 1, 2},
                     .llm = {2, 2, 2},
                     .microbatches = 3,
                     .activation_caps = {.encoder_bytes = 10, .llm_bytes = 20},
                     .interconnect = "latency=30us"};
  std::ofstream(file) << saved.to_json();

  SimulateArguments arguments = parsed("--layout " + file);
  JobModel job;
  EXPECT_EQ(layout_of(arguments, kMean, job).value().to_json(), saved.to_json());
  EXPECT_DOUBLE_EQ(job.cluster.latency_s, 30e-6);
  EXPECT_EQ(arguments.order.caps, saved.activation_caps);

  SimulateArguments own = parsed("--layout " + file + " --interconnect latency=1us");
  own.order.caps = {.encoder_bytes = 7, .llm_bytes = 7};
  JobModel untouched;
  const double latency_s = untouched.cluster.latency_s;
  ASSERT_TRUE(layout_of(own, kMean, untouched).has_value());
  EXPECT_EQ(untouched.cluster.latency_s, latency_s);  // the command reads the flag
  EXPECT_EQ(own.order.caps.llm_bytes, 7);

  EXPECT_THROW(parsed("--layout " + file + " --chunks 1"), CLI::ExcludesError);
  EXPECT_THAT(refusal("--layout " + (scratch / "none.json").string()), HasSubstr("none.json"));
}

}  // namespace
}  // namespace isocost::cli
