#include "cli/trace/cost_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isocost::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CostCsv, ReadsRowsWithAndWithoutHeader) {
  const auto plain = parse_cost_csv("1,2.5\n3,4e-1", {});
  ASSERT_TRUE(plain) << plain.error().to_string();
  EXPECT_THAT(plain->names, IsEmpty());
  EXPECT_EQ(plain->columns, 2U);
  EXPECT_THAT(plain->values, ElementsAre(1, 2.5, 3, 0.4));
  const auto named =
      parse_cost_csv("\xEF\xBB\xBFvision,\"llm, \"\"s\"\"\"\r\n# remark\r\n\r\n +1 ,\"2\"\r\n", {});
  ASSERT_TRUE(named) << named.error().to_string();
  EXPECT_THAT(named->names, ElementsAre("vision", "llm, \"s\""));
  EXPECT_THAT(named->values, ElementsAre(1, 2));
}

TEST(CostCsv, WantedColumnsAreReadInTheirOrderAndOthersMayHoldAnything) {
  const auto table = parse_cost_csv("id,a,b\nx,1,2\n,3,4\n", {.wanted = {"b", "a"}});
  ASSERT_TRUE(table) << table.error().to_string();
  EXPECT_THAT(table->names, ElementsAre("b", "a"));
  EXPECT_THAT(table->values, ElementsAre(2, 1, 4, 3));
}

TEST(CostCsv, ErrorsNameLineAndColumn) {
  struct Case {
    const char* text;
    CostCsvOptions options;
    ErrorCode code;
    const char* says;
  };
  const Case cases[] = {
      {"", {}, ErrorCode::kCorrupt, "no rows"},
      {"# only\n\n", {}, ErrorCode::kCorrupt, "no rows"},
      {"a,b\n", {}, ErrorCode::kCorrupt, "a header but no rows"},
      {"1,2\n\n3\n", {}, ErrorCode::kCorrupt, "line 3: 1 field where line 1 has 2"},
      {"1,2\n3,4,5\n", {}, ErrorCode::kCorrupt, "line 2: 3 fields"},
      {"1,2x\n", {}, ErrorCode::kCorrupt, "line 1: column 2: '2x' is not a number"},
      {"a,b\n1,\n", {}, ErrorCode::kCorrupt, "line 2: column 2 ('b'): '' is not a number"},
      {"1,nan\n", {}, ErrorCode::kCorrupt, "line 1: column 2: 'nan' must be finite"},
      {"1,2\n-0.5,1\n", {}, ErrorCode::kCorrupt, "line 2: column 1: '-0.5' must be"},
      {"1e999\n", {}, ErrorCode::kCorrupt, "'1e999' must be finite"},
      {"1000e397\n", {}, ErrorCode::kCorrupt, "'1000e397' must be finite"},
      {"-1e-400\n", {}, ErrorCode::kCorrupt, "'-1e-400' must be finite and >= 0"},
      {"1;2\n3;4\n", {}, ErrorCode::kCorrupt, "line 2"},
      {"1,\"2\n", {}, ErrorCode::kCorrupt, "column 2: the quotes do not close"},
      {"1,\"2\"3\n", {}, ErrorCode::kCorrupt, "column 2: the quotes do not close"},
      {"a,a\n1,2\n", {}, ErrorCode::kCorrupt, "two columns are called 'a'"},
      {"a,b\n1,2\n", {.wanted = {"c"}}, ErrorCode::kNotFound, "no column 'c'"},
      {"1,2\n", {.wanted = {"c"}}, ErrorCode::kNotFound, "not a header"},
      {"1\n2\n3\n", {.max_rows = 2}, ErrorCode::kResourceExhausted, "line 3: more than 2 rows"},
      {"1,2,3\n", {.max_columns = 2}, ErrorCode::kResourceExhausted, "more than 2 columns"},
  };
  for (const Case& bad : cases) {
    const auto table = parse_cost_csv(bad.text, bad.options);
    ASSERT_FALSE(table) << bad.text;
    EXPECT_EQ(table.error().code(), bad.code) << bad.text;
    EXPECT_THAT(table.error().message(), HasSubstr(bad.says)) << bad.text;
  }
}

TEST(CostCsv, WhatIsTooSmallForADoubleIsZero) {
  const std::string zeros(400, '0');
  const auto table =
      parse_cost_csv("1e-400,0.1E-399," + zeros + "." + zeros + "1,1e-99999999999,2", {});
  ASSERT_TRUE(table) << table.error().to_string();
  EXPECT_THAT(table->values, ElementsAre(0, 0, 0, 0, 2));
  EXPECT_FALSE(parse_cost_csv("1" + zeros + ".5", {}));
}

TEST(CostCsv, MessagesShowNoControlCharactersOfTheFile) {
  const auto table = parse_cost_csv("1\n\x1B[2Jx\n", {});
  ASSERT_FALSE(table);
  EXPECT_THAT(table.error().message(), HasSubstr("'?[2Jx'"));
}

}  // namespace
}  // namespace isocost::cli
