#include "cli/trace/trace_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/scratch_directory.h"
#include "cli/trace/trace_options.h"
#include "costmodel/profile.h"

namespace isocost::cli {
namespace {

TEST(Trace, TakesItsColumnsWhereverTheyStand) {
  const auto loads = parse_trace(
      "\xEF\xBB\xBFid,llm_tokens,modality,encoder_patches\r\na,10,image,2049\r\n\nb,7,audio,3\n");
  ASSERT_TRUE(loads.has_value()) << loads.error().message();
  ASSERT_EQ(loads->size(), 2U);
  const ModuleLoad& vision = (*loads)[0][CostModule::kVision];
  EXPECT_EQ(vision.units, 2049);
  EXPECT_EQ(vision.sequences, 3);
  EXPECT_EQ(vision.units_squared, 2 * 1024 * 1024 + 1);
  EXPECT_EQ((*loads)[0][CostModule::kLlm].units_squared, 100);
  EXPECT_EQ((*loads)[1][CostModule::kVision].units, 3);
}

// The units of a trace are what the model's encoder takes: a model without vision hears them.
TEST(Trace, CountsAsAudioForAModelWithoutVision) {
  const auto directory = ScratchDirectory::create("isocost-trace-audio");
  ASSERT_TRUE(directory.has_value());
  std::ofstream(directory->path() / "speech.csv") << "encoder_patches,llm_tokens\n3200,90\n0,7\n";
  CostProfile profile = CostProfile::stated_default();
  const auto units_by = [&](const char* name) {
    const auto file = directory->path() / name;
    std::ofstream(file) << profile.to_json();
    TraceOptions options;
    options.traces = (directory->path() / "speech.csv").string();
    options.profile = file.string();
    const auto mix = options.read();
    EXPECT_TRUE(mix.has_value()) << mix.error().message();
    return mix->traces.at(0);
  };
  EXPECT_EQ(units_by("both.json")[0][CostModule::kVision].units, 3200);
  profile.modules[static_cast<std::size_t>(CostModule::kVision)] = {};
  const auto heard = units_by("audio.json");
  EXPECT_EQ(heard[0][CostModule::kVision].units, 0);
  EXPECT_EQ(heard[0][CostModule::kAudio].sequences, 3);
  EXPECT_EQ(heard[0][CostModule::kAudio].units, 3200);
  EXPECT_EQ(heard[0][CostModule::kAudio].units_squared, 2 * 1500 * 1500 + 200 * 200);
  EXPECT_EQ(heard[0][CostModule::kLlm].units, 90);
  EXPECT_EQ(heard[1][CostModule::kAudio].sequences, 0);
}

TEST(Trace, SaysWhatIsWrong) {
  const std::string head = "encoder_patches,llm_tokens\n";
  for (const auto& [text, message] : {
           std::pair<std::string, std::string>{"encoder_patches\n1\n", "llm_tokens"},
           {head, "no rows"},
           {head + "1,2\n3\n", "line 3"},
           {head + "1,x\n", "line 2"},
           {head + "-1,2\n", "line 2"},
           {head + "nan,2\n", "line 2"},
           {head + "1,2\n\n1.5,2\n", "row 2 below the header: patches and tokens must be whole"},
           {head + "1,1e300\n", "row 1"},
           {head + "0,0\n", "neither patches nor tokens"},
       }) {
    const auto loads = parse_trace(text);
    ASSERT_FALSE(loads.has_value()) << text;
    EXPECT_THAT(loads.error().message(), testing::HasSubstr(message));
  }
}

TEST(Trace, IsDrawnByWeight) {
  const auto scratch = ScratchDirectory::create("isocost-trace-test").value();
  const std::string a = scratch / "a.csv";
  const std::string b = scratch / "b.csv";
  std::ofstream(a) << "encoder_patches,llm_tokens\n1,1\n";
  std::ofstream(b) << "encoder_patches,llm_tokens\n2,2\n";
  const auto mix = read_traces(a + "," + b, "3,1");
  const auto uneven = read_traces(a + "," + b, "3");
  const auto nothing = read_traces(a, "0");
  const auto missing = read_traces(a + ",/nowhere.csv", "");
  ASSERT_TRUE(mix.has_value()) << mix.error().message();
  Random random(1);
  int first = 0;
  for (const Load& load : mix->draw(4000, random))
    first += load[CostModule::kLlm].units == 1 ? 1 : 0;
  EXPECT_NEAR(first, 3000, 120);
  Random again(1);
  Random same(1);
  EXPECT_EQ(mix->draw(50, again), mix->draw(50, same));
  ASSERT_FALSE(uneven.has_value());
  EXPECT_THAT(uneven.error().message(), testing::HasSubstr("1 weight for 2 traces"));
  EXPECT_FALSE(nothing.has_value());
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace isocost::cli
