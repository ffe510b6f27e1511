#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "bench/quality/record.h"

namespace isocost {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

json row(double makespan, double idle, std::uint64_t plans = 1) {
  return {{"makespan", makespan}, {"idle_fraction", idle}, {"plans", plans}};
}

json recorded_rows() { return {{"small", {{"cost", row(1, 0.1)}, {"lpt", row(2, 0.2)}}}}; }

TEST(QualityRecord, DiffersByWorseBetterNewAndMissingRows) {
  EXPECT_THAT(differences(recorded_rows(), recorded_rows()), IsEmpty());
  json report = recorded_rows();
  report["small"]["cost"] = row(1 + 1e-12, 0.1);  // another compiler
  EXPECT_THAT(differences(report, recorded_rows()), IsEmpty());
  report["small"]["cost"] = row(1.1, 0.3);
  report["small"]["lpt"] = row(1.9, 0.2, 5);
  report["large"]["cost"] = row(1, 0);
  EXPECT_THAT(differences(report, recorded_rows()),
              ElementsAre(HasSubstr("large, cost: not in the record"),
                          "small, cost: makespan 1.1 is worse than the recorded 1",
                          "small, cost: idle_fraction 0.3 is worse than the recorded 0.1",
                          HasSubstr("small, lpt: better than recorded")));
  report = {{"small", {{"cost", row(1, 0.1, 7)}}}};
  EXPECT_THAT(differences(report, recorded_rows()),
              ElementsAre(HasSubstr("small, cost: the plans differ"),
                          HasSubstr("small, lpt: recorded, but no longer run")));
}

TEST(QualityRecord, RefusesWorseRowsWithoutAReason) {
  json report = recorded_rows();
  report["small"]["cost"] = row(0.5, 0.11, 2);  // one measure is better, the other worse
  const auto refused = make_record(report, recorded_rows(), "");
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr("small, cost: idle_fraction 0.11 is worse"), HasSubstr("--reason"),
                    Not(HasSubstr("lpt"))));
  report["small"]["cost"]["reason"] = "less memory";
  json measured = report;
  measured["small"]["cost"].erase("reason");
  EXPECT_EQ(make_record(measured, recorded_rows(), "less memory").value(), report);
  EXPECT_THAT(differences(measured, report), IsEmpty());
}

TEST(QualityRecord, NeedsNoReasonForBetterNewAndRemovedRows) {
  const json report = {{"small", {{"cost", row(0.9, 0.1, 2)}}}, {"large", {{"cost", row(9, 0.9)}}}};
  EXPECT_EQ(make_record(report, recorded_rows(), "").value(), report);
  EXPECT_EQ(make_record(report, json(), "").value(), report);  // the first record
}

TEST(QualityRecord, KeepsAReasonUntilTheRowIsBetter) {
  json recorded = recorded_rows();
  recorded["small"]["cost"]["reason"] = "less memory";
  EXPECT_EQ(make_record(recorded_rows(), recorded, "").value(), recorded);
  // A reason for another row does not replace it.
  json report = recorded_rows();
  report["small"]["lpt"] = row(3, 0.2);
  EXPECT_EQ(make_record(report, recorded, "new ties").value()["small"]["cost"]["reason"],
            "less memory");
  report["small"]["cost"] = row(0.9, 0.1);
  EXPECT_FALSE(
      make_record(report, recorded, "new ties").value()["small"]["cost"].contains("reason"));
}

}  // namespace
}  // namespace isocost
