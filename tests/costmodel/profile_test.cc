#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

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

TEST(Profile, LoadsAFileAndSaysWhichOneIsBroken) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "isocost_profile_test.json";
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
  EXPECT_EQ(CostProfile::load(testing::TempDir()).error().code(), ErrorCode::kIo);
}

// The numbers that docs/cost_model.md derives.
TEST(StatedDefault, IsTheDocumentedArithmetic) {
  const CostProfile profile = CostProfile::stated_default();
  constexpr double kSpeed = 124.8e12;
  const auto flop = [](double seconds) { return seconds * kSpeed / 3; };
  EXPECT_NEAR(flop(profile.modules[0].coefficients.per_unit), 823'495'680, 1);
  EXPECT_NEAR(flop(profile.modules[0].coefficients.per_unit_squared), 124'416, 1e-3);
  EXPECT_NEAR(flop(profile.modules[1].coefficients.per_unit), 1'270'087'680, 1);
  EXPECT_NEAR(flop(profile.modules[1].coefficients.per_unit_squared), 163'840, 1e-3);
  EXPECT_NEAR(flop(profile.modules[2].coefficients.per_unit), 14'140'571'648, 10);
  EXPECT_NEAR(flop(profile.modules[2].coefficients.per_unit_squared), 200'704, 1e-3);
}

}  // namespace
}  // namespace isocost
