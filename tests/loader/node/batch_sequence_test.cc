#include "loader/node/internal/batch_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace isocost {
namespace {

using testing::ElementsAre;

// Epochs of three steps of two samples, 100 * epoch + 10 * step + {0, 1}.
class BatchSequenceTest : public testing::Test {
 protected:
  BatchSequence sequence(std::uint64_t epochs, std::size_t ahead) {
    return BatchSequence(
        {[this](std::uint64_t epoch, std::uint64_t step) -> Result<std::vector<SampleId>> {
           const SampleId first = 100 * epoch + 10 * step;
           composed_.push_back(first);
           if (first == fails_) return Error(ErrorCode::kInvalidArgument, "no such batch");
           return std::vector<SampleId>{first, first + 1};
         },
         [](std::uint64_t) { return std::uint64_t{3}; }, epochs, ahead});
  }
  static std::vector<SampleId> present(BatchSequence& batches, std::uint64_t epoch,
                                       std::uint64_t step) {
    const auto ids = batches.move_to(epoch, step).value();
    return {ids.begin(), ids.end()};
  }
  static std::vector<SampleId> following(BatchSequence& batches) {
    std::vector<SampleId> ids;
    while (const auto id = batches.following(ids.size())) ids.push_back(*id);
    return ids;
  }

  std::vector<SampleId> composed_;  // the first sample of each batch
  std::optional<SampleId> fails_;
};

TEST_F(BatchSequenceTest, EachBatchIsComposedOnceAndInOrder) {
  BatchSequence batches = sequence(1, 1);
  EXPECT_THAT(present(batches, 0, 0), ElementsAre(0, 1));
  EXPECT_THAT(composed_, ElementsAre(0));
  EXPECT_THAT(following(batches), ElementsAre(10, 11));
  EXPECT_THAT(present(batches, 0, 1), ElementsAre(10, 11));
  EXPECT_THAT(following(batches), ElementsAre(20, 21));
  EXPECT_THAT(present(batches, 0, 2), ElementsAre(20, 21));
  EXPECT_THAT(composed_, ElementsAre(0, 10, 20));
}

TEST_F(BatchSequenceTest, LooksNoFurtherThanItMay) {
  BatchSequence none = sequence(0, 0);
  present(none, 0, 0);
  EXPECT_THAT(following(none), ElementsAre());
  BatchSequence two = sequence(0, 2);
  present(two, 0, 0);
  EXPECT_THAT(following(two), ElementsAre(10, 11, 20, 21));
}

TEST_F(BatchSequenceTest, TheNextEpochFollowsUnlessTheLastEnds) {
  BatchSequence batches = sequence(2, 2);
  present(batches, 0, 2);
  EXPECT_THAT(following(batches), ElementsAre(100, 101, 110, 111));
  present(batches, 1, 1);
  EXPECT_THAT(following(batches), ElementsAre(120, 121));
  BatchSequence endless = sequence(0, 1);
  present(endless, 7, 2);
  EXPECT_THAT(following(endless), ElementsAre(800, 801));
}

TEST_F(BatchSequenceTest, AJobMayGoOnElsewhere) {
  BatchSequence batches = sequence(0, 2);
  present(batches, 0, 0);
  following(batches);
  EXPECT_THAT(present(batches, 5, 1), ElementsAre(510, 511));
  EXPECT_THAT(following(batches), ElementsAre(520, 521, 600, 601));
  EXPECT_THAT(present(batches, 0, 1), ElementsAre(10, 11));
}

TEST_F(BatchSequenceTest, ABatchThatCannotBeComposedIsTheErrorOfItsOwnStep) {
  fails_ = 20;
  BatchSequence batches = sequence(1, 2);
  present(batches, 0, 0);
  EXPECT_THAT(following(batches), ElementsAre(10, 11));
  EXPECT_THAT(present(batches, 0, 1), ElementsAre(10, 11));
  EXPECT_EQ(batches.move_to(0, 2).error().message(), "no such batch");
}

}  // namespace
}  // namespace isocost
