#include "transport/protocol/internal/prefetch_credit.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "transport/wire/wire.h"

namespace isocost {
namespace {

constexpr std::uint64_t kSession = 7;

RankOptions options_with(std::uint32_t prefetch) {
  RankOptions options;
  options.prefetch = prefetch;
  return options;
}

class PrefetchCreditTest : public testing::Test {
 protected:
  // Returns how many microbatches are granted, 0 if no message is sent.
  std::uint32_t granted(std::uint32_t ready) {
    const auto credit = credit_.top_up(ready);
    if (!credit) return 0;
    EXPECT_EQ(credit->session, session_);
    EXPECT_GT(credit->microbatches, 0U) << "a node refuses such a message";
    return credit->microbatches;
  }

  std::uint64_t session_ = kSession;
  PrefetchCredit credit_{options_with(3)};
};

TEST_F(PrefetchCreditTest, FillsUpToTheLimitWhatIsNeitherReadyNorGranted) {
  credit_.begin_session(kSession);
  EXPECT_EQ(granted(1), 2U);
  EXPECT_EQ(granted(1), 0U) << "two are on their way";
  credit_.spend();
  EXPECT_EQ(granted(2), 0U) << "one of them has come, and takes its place";
  EXPECT_EQ(granted(1), 1U) << "the loop has taken one";
  credit_.spend();
  EXPECT_EQ(granted(1), 1U) << "what came was not kept";
  EXPECT_EQ(granted(9), 0U) << "more are ready than the limit says";
}

TEST_F(PrefetchCreditTest, CountsForOneSession) {
  EXPECT_EQ(granted(0), 0U) << "no session has begun";
  credit_.begin_session(kSession);
  EXPECT_EQ(granted(0), 3U);
  credit_.end_session();
  credit_.spend();
  EXPECT_EQ(granted(0), 0U);
  session_ = kSession + 1;
  credit_.begin_session(session_);
  EXPECT_EQ(granted(0), 3U) << "the node has forgotten what was granted before";
}

TEST_F(PrefetchCreditTest, ANodeThatSendsMoreThanItMayIsGrantedNoMore) {
  credit_.begin_session(kSession);
  EXPECT_EQ(granted(2), 1U);
  for (int i = 0; i < 4; ++i) credit_.spend();
  EXPECT_EQ(granted(3), 0U);
  EXPECT_EQ(granted(2), 1U);
}

TEST(PrefetchLimit, IsAtLeastOneAndFitsAMessage) {
  EXPECT_EQ(prefetch_limit(options_with(0)), 1U);
  EXPECT_EQ(prefetch_limit(options_with(5)), 5U);
  EXPECT_EQ(prefetch_limit(options_with(kMaxCredit + 1)), kMaxCredit);
  PrefetchCredit most(options_with(UINT32_MAX));
  most.begin_session(kSession);
  EXPECT_EQ(most.top_up(0)->microbatches, kMaxCredit);
}

TEST(PrefetchLimit, AClientWithoutARankGrantsNothing) {
  RankOptions options = options_with(2);
  options.rank = kNoRank;
  PrefetchCredit none(options);
  none.begin_session(kSession);
  EXPECT_FALSE(none.top_up(0).has_value());
}

}  // namespace
}  // namespace isocost
