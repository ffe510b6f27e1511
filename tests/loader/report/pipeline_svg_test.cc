#include "loader/report/pipeline_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/balancer/pipeline/pipeline_support.h"

namespace isocost {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(PipelineSvg, DrawsABoxForEachPassOfOneReplica) {
  PipelineStep step = test::equal_step(Schedule::kZbH1, 3, 2, 1, 4,
                                       {.forward_s = 1, .backward_s = 1, .weights_s = 1});
  step.encoder.stages = 1;
  step.encoder.passes.assign(
      3, std::vector<StagePass>(4, {.forward_s = 1, .backward_s = 1, .weights_s = 1}));
  step.feeds = coupled_feeds(3, 3, 4);
  const auto report = simulate(step);
  ASSERT_TRUE(report.has_value());
  const std::string svg = draw_pipelines({{"a < b & c", *report}});
  EXPECT_THAT(svg, testing::StartsWith("<svg "));
  EXPECT_THAT(svg, testing::HasSubstr("a &lt; b &amp; c"));
  EXPECT_EQ(count(svg, ">encoder 0<"), 1U);
  EXPECT_EQ(count(svg, ">LLM 1<"), 1U);
  // Background, legend, a lane and three passes of four microbatches for each of three stages.
  EXPECT_EQ(count(svg, "<rect "), 1U + 7U + 3U * (1U + 12U));
}

TEST(PipelineSvg, SaysWhenAndWhatItLeavesOut) {
  PipelineStep step = test::equal_step(Schedule::k1F1B, 2, 20, 1, 4,
                                       {.forward_s = 1, .backward_s = 1, .weights_s = 1});
  step.llm.transfers.reduce.seconds = 7;
  const auto report = simulate(step);
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->step_s, 76);  // (4 + 20 - 1) x 3 and the reduction
  const std::string svg = draw_pipelines({{"deep", *report}});
  EXPECT_THAT(svg, testing::HasSubstr("4 more stages not drawn"));
  EXPECT_THAT(svg, testing::HasSubstr("LLM replica 0 (of 0 to 1)"));
  EXPECT_THAT(svg, testing::AllOf(testing::HasSubstr(">0 s<"), testing::HasSubstr(">10 s<"),
                                  testing::HasSubstr(">70 s<"),
                                  testing::Not(testing::HasSubstr(">80 s<"))));
  // A reduction on each of the 16 rows, and one box in the legend, which has no encoder.
  EXPECT_EQ(count(svg, "fill=\"#e0a030\""), 17U);
  EXPECT_THAT(svg, testing::HasSubstr(">gradient reduction<"));
  EXPECT_THAT(svg, testing::Not(testing::HasSubstr(">encoder ")));
  // A small step is drawn in milliseconds.
  step.llm.transfers.reduce.seconds = 0;
  for (auto& passes : step.llm.passes) {
    for (StagePass& pass : passes) pass = {.forward_s = 1e-3, .backward_s = 1e-3};
  }
  EXPECT_THAT(draw_pipelines({{"fast", *simulate(step)}}), testing::HasSubstr(">20 ms<"));
}

TEST(PipelineSvg, NothingToDraw) {
  for (const std::string& svg : {draw_pipelines({}), draw_pipelines({{"empty", {}}})}) {
    EXPECT_THAT(svg, testing::HasSubstr(">There is nothing to draw.</text>"));
    EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  }
}

TEST(PipelineSvg, DrawsARowForEachRankThatHoldsTheWholeModel) {
  PipelineStep step;
  step.llm.stages = 1;
  for (const double seconds : {1.0, 3.0, 2.0}) {
    step.llm.passes.push_back({{.forward_s = seconds, .backward_s = seconds}});
  }
  const auto report = simulate(step);
  ASSERT_TRUE(report.has_value()) << report.error().message();
  EXPECT_EQ(last_llm_replica(*report), 1U);
  const std::string svg = draw_pipelines({{"ranks", *report}});
  for (const char* name : {">rank 0<", ">rank 1<", ">rank 2<"}) {
    EXPECT_THAT(svg, testing::HasSubstr(name));
  }
  EXPECT_THAT(draw_pipelines({{"ranks", *report}}, /*rows=*/2),
              testing::HasSubstr("1 more rank not drawn"));
}

}  // namespace
}  // namespace isocost
