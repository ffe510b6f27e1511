#include "loader/dataset/tokens/truncation.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/scratch_directory.h"
#include "tests/loader/dataset/made_shards.h"

namespace isocost {
namespace {

// A sample of three turns that end after 2, 4 and 6 of 7 ids.
class TruncationTest : public testing::Test {
 protected:
  TruncationTest() {
    sample_.tokens = {.ids = {1, 2, 3, 4, 5, 6, 7},
                      .labelled = {false, true, false, true, false, true, false},
                      .turns = {{2, 0, {}}, {4, 0, {}}, {6, 0, {}}},
                      .weights = {{1, 2, 0.5F}, {5, 6, 2}}};
  }
  Truncation within(std::int64_t most) const {
    const auto tokens = made_tokens(scratch_, std::vector{sample_});
    return truncate_sample(index_->view(), *tokens, 0, [most](const SampleShape& shape) {
      const std::int64_t ids = shape.parts.front().text_tokens;
      return ids > most ? "has " + std::to_string(ids) : std::string();
    });
  }

  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  const std::unique_ptr<const ShardIndex> index_ = index_in_memory(contents_of({"key"}));
  TokenizedSample sample_;
};

TEST_F(TruncationTest, CutsAtTheLastTurnThatFits) {
  const Truncation two = within(5);
  ASSERT_TRUE(two.cut.has_value()) << two.reason;
  EXPECT_EQ(two.reason, "");
  EXPECT_EQ(two.cut->end.ids, 4U);
  EXPECT_EQ(two.cut->at.ids, 4U);
  EXPECT_EQ(two.cut->at.turns, 2U);
  EXPECT_EQ(two.cut->at.weights, 1U);
  EXPECT_EQ(two.cut->label_tokens, 2);
  const Truncation three = within(6);
  ASSERT_TRUE(three.cut.has_value()) << three.reason;
  EXPECT_EQ(three.cut->at.turns, 3U);
  EXPECT_EQ(three.cut->at.weights, 2U);
}

TEST_F(TruncationTest, SaysWhyThereIsNoCut) {
  EXPECT_EQ(within(1).reason, "cut to its first turns it still has 2");
  sample_.tokens.labelled[1] = false;
  EXPECT_FALSE(within(3).cut.has_value());
  EXPECT_EQ(within(3).reason,
            "cut to its first turns with labels it still has 4, and cut before these it has no "
            "labels, as after turns of weight 0");
  sample_.tokens.labelled[3] = sample_.tokens.labelled[5] = false;
  EXPECT_EQ(within(3).reason, "has 7 (no turn to cut it at has labels before it)");
}

TEST_F(TruncationTest, WithoutTurnsThereIsNoCut) {
  sample_.tokens.turns.clear();
  EXPECT_EQ(within(5).reason, "has 7 (no turn to cut it at has labels before it)");
}

}  // namespace
}  // namespace isocost
