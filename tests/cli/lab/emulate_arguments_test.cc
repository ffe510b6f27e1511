#include "cli/lab/emulate_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/scratch_directory.h"
#include "cli/lab/emulate_layout.h"

namespace isocost::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

EmulateArguments parsed(const std::string& flags) {
  EmulateArguments arguments;
  CLI::App app;
  arguments.add_to(app);
  app.parse("--trace a.csv " + flags);
  return arguments;
}

std::string refusal(const std::string& flags) {
  const auto layout = layout_of(parsed(flags));
  return layout ? "accepted" : layout.error().message();
}

TEST(EmulateArguments, FlagsAreTheLayoutAndTheDisturbance) {
  const EmulateArguments arguments = parsed(
      "--dp 3 --pp 5 --encoder-pp 2 --microbatches 4 --schedule zb-h1 --balance in-order "
      "--noise 0.5 --slow-rank 1:2 --change llm:3 --change encoder:4@5");
  const Layout layout = layout_of(arguments).value();
  EXPECT_EQ(layout.encoder, (ModuleDegrees{1, 2, 3}));
  EXPECT_EQ(layout.llm, (ModuleDegrees{1, 3, 3}));
  EXPECT_EQ(layout.microbatches, 4U);
  EXPECT_EQ(layout.schedule, Schedule::kZbH1);
  EXPECT_EQ(layout.encoder_place, EncoderPlacement::kOwnRanks);
  EXPECT_EQ(arguments.balance, "in-order");
  EXPECT_EQ(arguments.disturbance.noise, 0.5);
  EXPECT_EQ(arguments.disturbance.slow_rank, "1:2");
  EXPECT_THAT(arguments.disturbance.changes, ElementsAre("llm:3", "encoder:4@5"));
}

TEST(EmulateArguments, ALayoutFileReplacesTheDegrees) {
  const auto scratch = ScratchDirectory::create("isocost-lab-test").value();
  Layout layout{.encoder = {1, 1, 2}, .llm = {2, 2, 2}, .microbatches = 3};
  const std::string file = scratch / "layout.json";
  std::ofstream(file) << layout.to_json();
  EXPECT_EQ(layout_of(parsed("--layout " + file)).value().to_json(), layout.to_json());
  for (const char* replaced :
       {"--dp 2", "--pp 2", "--encoder-pp 1", "--microbatches 2", "--schedule gpipe"}) {
    EXPECT_THROW(parsed("--layout " + file + " " + replaced), CLI::ExcludesError) << replaced;
  }
  EXPECT_THAT(refusal("--layout " + file + " --global-batch-size 5"),
              testing::AllOf(HasSubstr(file), HasSubstr("there are 6 microbatches")));
}

TEST(EmulateArguments, RefusesWhatCannotBeEmulated) {
  EXPECT_THAT(refusal("--schedule round"), HasSubstr("must be gpipe, 1f1b or zb-h1"));
  EXPECT_THAT(refusal("--schedule interleaved"), HasSubstr("emulate supports gpipe"));
  EXPECT_THAT(refusal("--pp 2 --encoder-pp 2"), HasSubstr("it must be below --pp (2)"));
  EXPECT_THAT(refusal("--dp 1024 --pp 5 --global-batch-size 100000"),
              HasSubstr("5120 stages over all replicas"));
  EXPECT_THAT(refusal("--dp 1 --microbatches 2 --global-batch-size 1"),
              HasSubstr("--global-batch-size is 1; there are 2 microbatches"));
  EXPECT_THROW(parsed("--dp 0"), CLI::ValidationError);
  EXPECT_THROW(parsed("--seed -1"), CLI::ValidationError);
}

}  // namespace
}  // namespace isocost::cli
