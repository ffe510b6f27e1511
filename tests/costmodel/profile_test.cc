#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/scratch_directory.h"
#include "costmodel/cuts.h"
#include "costmodel/profile.h"

namespace isocost {
namespace {

using testing::HasSubstr;

const std::string kZeroModule =
    R"({"per_microbatch": 0, "per_sequence": 0, "per_unit": 0, "per_unit_squared": 0})";

std::string profile_with_llm(const std::string& llm) {
  return R"({"version": 1, "unit": "seconds", "modules": {"vision": )" + kZeroModule +
         R"(, "audio": )" + kZeroModule + R"(, "llm": )" + llm + "}}";
}

TEST(Profile, PrintsAndReadsBack) {
  CostProfile profile = CostProfile::stated_default();
  profile.source = "a \"quoted\"\xff name";
  const auto again = CostProfile::parse(profile.to_json());
  ASSERT_TRUE(again) << again.error().to_string();
  for (std::size_t i = 0; i < kModules; ++i) {
    EXPECT_EQ(again->modules[i].coefficients.per_microbatch,
              profile.modules[i].coefficients.per_microbatch);
    EXPECT_EQ(again->modules[i].coefficients.per_unit, profile.modules[i].coefficients.per_unit);
    EXPECT_EQ(again->modules[i].coefficients.per_unit_squared,
              profile.modules[i].coefficients.per_unit_squared);
  }
}

TEST(Profile, TellsExpertsFromADenseMlp) {
  CostProfile profile = CostProfile::stated_default();
  EXPECT_THAT(profile.to_json(), testing::Not(HasSubstr("experts")));
  profile.modules[2].architecture->experts = 128;
  EXPECT_EQ(CostProfile::parse(profile.to_json())->modules[2].architecture,
            profile.modules[2].architecture);
}

TEST(Profile, TextsCarryNoControlCharactersToATerminal) {
  CostProfile profile = CostProfile::stated_default();
  profile.hardware = "a \x1b[31mGPU\n";
  EXPECT_EQ(CostProfile::parse(profile.to_json())->hardware, "a ?[31mGPU?");
}

TEST(FitCoefficients, NoisyPointsHaveLessWeight) {
  std::vector<ProfilePoint> points;
  for (const std::int64_t length : {100, 200, 400, 800}) {
    ProfilePoint point;
    point.load.add_sequence(length);
    point.forward_s = 1e-6 * static_cast<double>(length);
    points.push_back(point);
  }
  points[1].forward_s *= 1.5;
  const double clean = fit_coefficients(points).per_unit;
  points[1].spread = 0.5;
  const ModuleCoefficients fitted = fit_coefficients(points);
  EXPECT_GT(clean, 1.05e-6);
  EXPECT_NEAR(predict(fitted, points[3].load).count(), 800e-6, 8e-6);
}

TEST(Profile, BadFieldsAreNamed) {
  struct Case {
    std::string text;
    const char* says;
    ErrorCode code = ErrorCode::kCorrupt;
  };
  const auto llm = [](const std::string& value) {
    return profile_with_llm(
        R"({"per_microbatch": 0, "per_sequence": 0, "per_unit_squared": 0, "per_unit": )" + value +
        "}");
  };
  const Case cases[] = {
      {"", "profile"},
      {"[1]", "not a JSON object"},
      {"{", "profile"},
      {R"({"unit": "seconds", "modules": {}})", "'version' is missing"},
      {R"({"version": "1", "unit": "seconds"})", "'version' must be an integer"},
      {R"({"version": 2, "unit": "seconds"})", "'version' is 2", ErrorCode::kUnsupported},
      {R"({"version": 1, "modules": {}})", "'unit' is missing"},
      {R"({"version": 1, "unit": "ms", "modules": {}})", "'unit' must be"},
      {R"({"version": 1, "unit": "seconds"})", "'modules' is missing"},
      {R"({"version": 1, "unit": "seconds", "modules": []})", "'modules' must be an object"},
      {R"({"version": 1, "unit": "seconds", "modules": {}})", "'modules.vision' is missing"},
      {R"({"version": 1, "unit": "seconds", "modules": {}, "colour": 1})", "'colour' is not"},
      {R"({"version": 1, "version": 1, "unit": "seconds"})", "'version' is given twice"},
      {R"({"version": 1, "unit": "seconds", "source": 3, "modules": {}})", "'source' must be"},
      {llm("-1"), "'modules.llm.per_unit' must not be negative"},
      {llm("1e308"), "'modules.llm.per_unit' must be 0, or between 1e-18 and 86400"},
      {llm("1e-20"), "'modules.llm.per_unit' must be 0, or between 1e-18 and 86400"},
      {llm("\"3\""), "'modules.llm.per_unit' must be a number"},
      {llm("null"), "'modules.llm.per_unit' must be a number"},
      {llm("1e999"), "'per_unit'"},
      {llm("NaN"), "'per_unit'"},
      {profile_with_llm("3"), "'modules.llm' must be an object"},
      {profile_with_llm(R"({"per_microbatch": 0})"), "'modules.llm.per_sequence' is missing"},
      {profile_with_llm(kZeroModule.substr(0, kZeroModule.size() - 1) + R"(, "per_byte": 0})"),
       "'modules.llm.per_byte' is not a known key"},
      {profile_with_llm(kZeroModule + R"(, "video": {})"), "'modules.video' is not a known key"},
      {std::string(std::size_t{2} << 20, ' '), "larger than 1024 KiB"},
      {std::string(100'000, '['), "profile"},
  };
  for (const Case& bad : cases) {
    const auto profile = CostProfile::parse(bad.text);
    ASSERT_FALSE(profile) << bad.text;
    EXPECT_EQ(profile.error().code(), bad.code) << bad.text;
    EXPECT_THAT(profile.error().message(), HasSubstr(bad.says));
  }
}

TEST(Profile, LoadsAFileAndNamesItInErrors) {
  const auto scratch = ScratchDirectory::create("isocost-profile-test").value();
  const auto file = scratch / "profile.json";
  std::ofstream(file) << CostProfile::stated_default().to_json();
  const auto profile = CostProfile::load(file);
  ASSERT_TRUE(profile) << profile.error().to_string();
  EXPECT_EQ(profile->source, file.string());
  std::ofstream(file) << "{}";
  const auto broken = CostProfile::load(file);
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message(), HasSubstr(file.string()));
  std::filesystem::remove(file);
  EXPECT_EQ(CostProfile::load(file).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(CostProfile::load(scratch.path()).error().code(), ErrorCode::kInvalidArgument);
}

// Points with one and with many sequences that take `ends_s + layer_s * layers` per unit.
std::vector<ProfilePoint> points_of(double ends_s, double layer_s, double layers) {
  std::vector<ProfilePoint> points;
  for (const std::int64_t length : {64, 256, 1024}) {
    for (const std::int64_t count : {std::int64_t{1}, 4096 / length}) {
      ProfilePoint point;
      for (std::int64_t i = 0; i < count; ++i) point.load.add_sequence(length);
      point.forward_s = static_cast<double>(point.load.units) * (ends_s + layer_s * layers);
      points.push_back(point);
    }
  }
  return points;
}

CostProfile profile_with_cuts() {
  CostProfile profile = CostProfile::stated_default();
  ModuleProfile& llm = profile.modules[2];
  llm.architecture = Architecture::qwen2_5_7b();  // 28 layers
  llm.points = points_of(3e-6, 1e-6, 28);
  std::vector<ProfilePoint> halves = points_of(3e-6, 1e-6, 28);
  for (ProfilePoint& point : halves) point.forward_s *= point.load.units > 2048 ? 0.55 : 0.9;
  llm.cuts = {{.tensor = 1, .layers = 14, .points = points_of(3e-6, 1e-6, 14)},
              {.tensor = 2, .layers = 0, .points = halves}};
  return profile;
}

TEST(ProfileCuts, GiveTheShareOfTensorRanksAndTheWorkOutsideTheLayers) {
  const auto profile = CostProfile::parse(profile_with_cuts().to_json());
  ASSERT_TRUE(profile) << profile.error().to_string();
  const ModuleProfile& llm = profile->modules[2];
  ASSERT_EQ(llm.cuts.size(), 2U);
  EXPECT_EQ(llm.cuts[0].layers, 14);
  EXPECT_EQ(llm.cuts[1].tensor, 2);
  EXPECT_NEAR(work_outside_layers(llm), 3, 1e-9);
  EXPECT_EQ(tensor_share(llm, 1), 1);
  EXPECT_NEAR(tensor_share(llm, 2).value(), 0.55,
              1e-9);  // of large loads; small loads are dominated by launches
  EXPECT_FALSE(tensor_share(llm, 4).has_value());
  EXPECT_FALSE(tensor_share(profile->modules[0], 2).has_value());
  EXPECT_EQ(work_outside_layers(CostProfile::stated_default().modules[2]),
            CostProfile::stated_default().modules[2].architecture->head_layers());
}

TEST(ProfileCuts, InvalidCutsAreNamed) {
  const auto refusal = [](void (*spoil)(ModuleProfile& llm)) {
    CostProfile profile = profile_with_cuts();
    spoil(profile.modules[2]);
    const auto parsed = CostProfile::parse(profile.to_json());
    return parsed ? "accepted" : parsed.error().message();
  };
  EXPECT_THAT(refusal([](ModuleProfile& llm) { llm.cuts[1].tensor = 1; }),
              HasSubstr("'modules.llm.cuts.1.tensor' is 1"));
  EXPECT_THAT(refusal([](ModuleProfile& llm) { llm.cuts[0].layers = 28; }),
              HasSubstr("'modules.llm.cuts.0' must have fewer layers than the 28"));
  EXPECT_THAT(refusal([](ModuleProfile& llm) { llm.architecture.reset(); }),
              HasSubstr("'modules.llm.cuts.0' has fewer layers, but 'architecture' is missing"));
  EXPECT_THAT(refusal([](ModuleProfile& llm) { llm.cuts[1] = llm.cuts[0]; }),
              HasSubstr("'modules.llm.cuts.1' has the same tensor and layers as cut 0"));
  EXPECT_THAT(refusal([](ModuleProfile& llm) { llm.cuts[0].points[0].forward_s = -1; }),
              HasSubstr("'modules.llm.cuts.0.points.0.forward_s' must not be negative"));
  EXPECT_THAT(refusal([](ModuleProfile& llm) { llm.cuts[1].points[0].forward_s = 60; }),
              HasSubstr("'modules.llm.cuts.1.points.0' takes more than twice"));
}

// The numbers that docs/cost_model.md derives.
TEST(StatedDefault, IsTheDocumentedArithmetic) {
  const CostProfile profile = CostProfile::stated_default();
  constexpr double kSlowdown = 124.8e12;
  const auto flop = [](double seconds) { return seconds * kSlowdown / 3; };
  EXPECT_NEAR(flop(profile.modules[0].coefficients.per_unit), 823'495'680, 1);
  EXPECT_NEAR(flop(profile.modules[0].coefficients.per_unit_squared), 124'416, 1e-3);
  EXPECT_NEAR(flop(profile.modules[1].coefficients.per_unit), 1'270'087'680, 1);
  EXPECT_NEAR(flop(profile.modules[1].coefficients.per_unit_squared), 163'840, 1e-3);
  EXPECT_NEAR(flop(profile.modules[2].coefficients.per_unit), 14'140'571'648, 10);
  EXPECT_NEAR(flop(profile.modules[2].coefficients.per_unit_squared), 200'704, 1e-3);
}

}  // namespace
}  // namespace isocost
