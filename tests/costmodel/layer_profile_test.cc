#include "costmodel/layer_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "costmodel/profile.h"

namespace isocost {
namespace {

using testing::HasSubstr;

constexpr const char* kPoint =
    R"({"sequences": 2, "units": 200, "units_squared": 20000, "forward_s": 0.001, )"
    R"("backward_s": 0.002, "spread": 0.01, "peak_bytes": 4096})";

std::string document(const std::string& module,
                     const std::string& head = R"("version": 1, "kind": "layer profile", )"
                                               R"("unit": "seconds")") {
  return "{" + head + R"(, "modules": {)" + module + "}}";
}

std::string refusal(const std::string& text) {
  const auto profile = LayerProfile::parse(text);
  return profile ? "accepted" : profile.error().message();
}

TEST(LayerProfileTest, HasTheModulesThatWereMeasured) {
  const auto profile = LayerProfile::parse(
      document(std::string(R"("llm": {"layers": 3, "points": [)") + kPoint + "]}"));
  ASSERT_TRUE(profile) << profile.error().message();
  EXPECT_FALSE((*profile)[CostModule::kVision]);
  const auto& llm = (*profile)[CostModule::kLlm];
  ASSERT_TRUE(llm);
  EXPECT_EQ(llm->layers, 3);
  ASSERT_EQ(llm->points.size(), 1U);
  EXPECT_EQ(llm->points[0].load.units_squared, 20000);
  EXPECT_DOUBLE_EQ(llm->points[0].seconds(), 0.003);
  const auto again = LayerProfile::parse(profile->to_json());
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->to_json(), profile->to_json());
}

TEST(LayerProfileTest, OtherDocumentsAreRefusedByName) {
  const std::string module = std::string(R"("llm": {"layers": 1, "points": [)") + kPoint + "]}";
  EXPECT_THAT(refusal(document(module, R"("version": 1, "unit": "seconds")")),
              HasSubstr("layer profile: 'kind' is missing"));
  EXPECT_THAT(refusal(document(module, R"("version": 1, "kind": "layout", "unit": "seconds")")),
              HasSubstr("this is a layout, not a layer profile"));
  EXPECT_THAT(
      refusal(document(module, R"("version": 2, "kind": "layer profile", "unit": "seconds")")),
      HasSubstr("'version' is 2; this program reads version 1: measure the layers again"));
  EXPECT_THAT(
      refusal(document(module, R"("version": 1, "kind": "layer profile", "unit": "hours")")),
      HasSubstr("'unit' must be \"seconds\""));
  const auto whole = CostProfile::parse(document(module));
  ASSERT_FALSE(whole);
  EXPECT_THAT(whole.error().message(), HasSubstr("this is a layer profile, not a model profile"));
}

TEST(LayerProfileTest, WrongModulesAreRefusedByKey) {
  EXPECT_THAT(refusal(document(std::string(R"("llm": {"points": [)") + kPoint + "]}")),
              HasSubstr("'modules.llm.layers' is missing"));
  EXPECT_THAT(refusal(document(std::string(R"("llm": {"layers": 0, "points": [)") + kPoint + "]}")),
              HasSubstr("'modules.llm.layers'"));
  EXPECT_THAT(refusal(document(R"("llm": {"layers": 1, "points": []})")),
              HasSubstr("'modules.llm.points' is empty"));
  EXPECT_THAT(
      refusal(document(std::string(R"("text": {"layers": 1, "points": [)") + kPoint + "]}")),
      HasSubstr("'modules.text'"));
}

}  // namespace
}  // namespace isocost
