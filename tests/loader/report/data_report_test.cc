#include "loader/report/data_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "tests/loader/report/data_profile_fixture.h"

namespace isocost {
namespace {

using testing::HasSubstr;
using testing::Not;

class DataReportTest : public DataProfileTest {};

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; ++at) ++found;
  return found;
}

TEST_F(DataReportTest, IsSelfContainedAndEscapesNames) {
  const std::string html = data_report_html(profile());
  EXPECT_THAT(html, HasSubstr("&lt;s143&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<s143>")));
  for (const char* text : {"http", "href", "src=", "url(", "var(", "<script"}) {
    EXPECT_THAT(html, Not(HasSubstr(text)));
  }
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  std::size_t plots = 0;
  for (std::size_t at = 0; (at = html.find("<svg", at)) != std::string::npos; ++at) ++plots;
  EXPECT_EQ(plots, 6U);
}

TEST_F(DataReportTest, HasEveryPolicyAndTheHours) {
  options_.gpu_hours = 200;
  DataProfile profile = this->profile();
  profile.bad = 3;
  profile.refused = 21;
  profile.refused_example = "a.tar: <one>: too long";
  profile.skew[BalancePolicy::kInOrder].step_s = 4.25;
  profile.skew[BalancePolicy::kTokens].step_s = 3.5;
  profile.skew[BalancePolicy::kTokens].saved_share = 0.175;
  profile.skew[BalancePolicy::kTokens].saved_share_deviation = 0.012;
  CostSkew::Policy& cost = profile.skew[BalancePolicy::kCost];
  cost.microbatch_max_over_mean = 1.234;
  cost.microbatch_max_over_mean_deviation = 0.321;
  cost.rank_max_over_mean = 1.111;
  cost.rank_max_over_mean_deviation = 0.098;
  cost.step_s = 3.125;
  cost.saved_share = 0.25;
  cost.saved_share_deviation = 0.031;
  const std::string html = data_report_html(profile);
  for (const char* text :
       {"<b>3</b><span>bad", "<b>21</b><span>refused", "a.tar: &lt;one&gt;: too long",
        "1.234 ± 0.321", "1.111 ± 0.098", "4.250 ± ", "3.125 ± ", "25.0 ± 3.1 %", "3.500 ± ",
        "17.5 ± 1.2 %", "GPU-hours of the run: 200 in-order, 165 tokens, 150 cost.", "<b>50</b>"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
}

TEST_F(DataReportTest, AxesHaveUnitsAndModulesOfTheirOwn) {
  const std::string html = data_report_html(profile());
  for (const char* text :
       {">vision patches per sample (", ">audio positions per sample (", ">LLM tokens per sample (",
        ">↑ samples<", ">encoder seconds per sample<", ">↑ LLM seconds per sample<",
        ">samples (%), most expensive first<", ">↑ share of all seconds (%)<",
        ">↑ seconds per step<"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  EXPECT_THAT(html, Not(HasSubstr("encoder units")));
}

TEST_F(DataReportTest, DrawsOneBarForEachRankAndPolicy) {
  options_.ranks = 4;
  const std::string html = data_report_html(profile());
  for (const std::string_view policy : kBalancePolicyNames) {
    EXPECT_EQ(count(html, "rank 3, " + std::string(policy) + ": "), 1U) << policy;
    EXPECT_EQ(count(html, ">" + std::string(policy) + "</text>"), 1U) << policy;  // the legend
  }
  EXPECT_THAT(html, Not(HasSubstr("rank 4, ")));
}

}  // namespace
}  // namespace isocost
