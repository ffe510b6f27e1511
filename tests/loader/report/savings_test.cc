#include "loader/report/savings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace isocost {
namespace {

using testing::HasSubstr;
using testing::Not;

Savings savings() {
  return {.policies = {{{.step_s = 4, .idle_share = 0.4},
                        {.step_s = 3.5, .idle_share = 0.3, .fits = false},
                        {.step_s = 3, .idle_share = 0.2}}},
          .gpus = 64,
          .price_per_gpu_hour = 2.5};
}

TEST(Savings, CountsHoursAndMoneyOfAWeek) {
  const Savings found = savings();
  EXPECT_DOUBLE_EQ(found.share(BalancePolicy::kInOrder), 0);
  EXPECT_DOUBLE_EQ(found.share(BalancePolicy::kCost), 0.25);
  EXPECT_DOUBLE_EQ(found.gpu_hours(BalancePolicy::kCost), 64 * 168 * 0.25);
  EXPECT_DOUBLE_EQ(found.money(BalancePolicy::kCost).value(), 64 * 168 * 0.25 * 2.5);
  Savings free = found;
  free.price_per_gpu_hour.reset();
  EXPECT_FALSE(free.money(BalancePolicy::kCost).has_value());
  free.policies = {};
  EXPECT_DOUBLE_EQ(free.share(BalancePolicy::kCost), 0);  // data without any work
}

TEST(Savings, AreSaidAlikeEverywhere) {
  const std::string week = week_text(savings());
  EXPECT_EQ(week,
            "cost saves 25.0 % of in-order: 2,688 of the 10,752 GPU-hours of a week on 64 GPUs, "
            "which is 6,720 at 2.5 per GPU-hour\n");
  EXPECT_THAT(policies_text(savings()), HasSubstr("30.00%  (does not fit the memory)"));
  const std::string html = savings_html(savings(), std::nullopt, "basis <1>");
  for (const char* text : {"<b>25.0 %</b>", "<b>2,688</b>", "<b>6,720</b>", "basis &lt;1&gt;",
                           "tokens (does not fit the memory)"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  EXPECT_THAT(html, Not(HasSubstr("What the loader needs")));
  const auto json = nlohmann::json::parse(savings_json(savings()));
  EXPECT_EQ(json["gpu_hours_a_week"], 2688);
  EXPECT_EQ(json["money_a_week"], 6720);
  EXPECT_EQ(json["tokens"]["fits"], false);
  EXPECT_EQ(json["in-order"]["idle_share"], 0.4);
}

TEST(Savings, LossesAreSaidToo) {
  Savings found = savings();
  found.policies.back().step_s = 5;
  EXPECT_THAT(week_text(found), HasSubstr("cost saves -25.0 % of in-order: -2,688 of the 10,752"));
}

TEST(LoaderNeeds, FollowFromTheStep) {
  const LoaderNeeds needs = loader_needs({.encoded = 1e5, .tensors = 1 << 20}, 256, 4, 0.03);
  EXPECT_DOUBLE_EQ(needs.samples_per_s, 64);
  EXPECT_DOUBLE_EQ(needs.read_bytes_per_s.value(), 6.4e6);
  EXPECT_DOUBLE_EQ(needs.sent_bytes_per_s, 64.0 * (1 << 20));
  EXPECT_DOUBLE_EQ(needs.memory_bytes, 6.0 * 256 * (1 << 20));
  EXPECT_DOUBLE_EQ(needs.cores.value(), 1.92);
  EXPECT_EQ(
      needs_text(needs),
      "loader: 64 samples/s; reads 6.4 MB/s, sends 67.1 MB/s; memory at least 1.5 GiB; cores: "
      "1.92\n");
  const std::string html = savings_html(savings(), needs, "");
  for (const char* text : {">6.4 MB/s<", ">67.1 MB/s<", ">1.5 GiB<", ">1.92<"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
}

TEST(LoaderNeeds, SayWhatIsNotKnown) {
  const LoaderNeeds needs = loader_needs({.encoded = std::nullopt, .tensors = 500}, 10, 2, {});
  EXPECT_EQ(needs_text(needs),
            "loader: 5 samples/s; sends 2.5 kB/s; memory at least 29.3 KiB; cores: not measured "
            "(--measure-decoding)\n");
  const auto json = nlohmann::json::parse(needs_json(needs));
  EXPECT_TRUE(json["cores"].is_null());
  EXPECT_TRUE(json["read_bytes_per_s"].is_null());
  EXPECT_DOUBLE_EQ(loader_needs({.encoded = 1, .tensors = 1}, 10, 0, {}).samples_per_s, 0);
}

}  // namespace
}  // namespace isocost
