#include "trainer_adapter/internal/reassembly_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/trainer_adapter/fake_connection.h"

namespace isocost {
namespace {

constexpr std::int64_t kBytes = 8;

ClientOptions options_with_prefetch(std::uint32_t prefetch) {
  ClientOptions options;
  options.prefetch = prefetch;
  return options;
}

Position position_of(std::uint32_t step) { return {0, step, 0}; }

// A microbatch of one sample, with one tensor of kBytes.
MicrobatchHeader header_of(std::uint32_t step) {
  MicrobatchHeader header;
  header.position = position_of(step);
  header.samples = {{step, 1.0F, 1}};
  header.tensors = {{"vision.patches", DType::kUInt8, {1, kBytes}}};
  header.rows = {1};
  return header;
}

BlockReceiver::Delivered block_of(std::uint32_t step) {
  const auto memory = std::make_shared<std::vector<std::byte>>(kBytes);
  return {position_of(step), {0}, *memory, memory, [] { return Status(); }};
}

class ReassemblyQueueTest : public testing::Test {
 protected:
  Status add_fragment(std::uint32_t step) {
    const std::vector<std::byte> bytes(kBytes);
    const std::vector<std::span<const std::byte>> frames = {bytes};
    return queue_.add(
        FragmentHeader{position_of(step), 0, {{{"vision.patches", DType::kUInt8, {1, kBytes}}, 0}}},
        frames);
  }
  // Returns the steps that were handed over since the last call, -1 for an end of epoch.
  std::vector<int> steps() {
    std::vector<int> found;
    while (hand_out_.wait(std::chrono::milliseconds(0))) {
      const auto next = hand_out_.next({});
      if (!next) break;
      found.push_back(*next ? static_cast<int>((*next)->header.position.step) : -1);
    }
    return found;
  }

  FakeConnection connection_;
  BufferPool pool_;
  const ClientOptions options_ = options_with_prefetch(2);
  HandOut hand_out_{options_, connection_};
  ReassemblyQueue queue_{options_, pool_, hand_out_};
};

using Steps = std::vector<int>;

TEST_F(ReassemblyQueueTest, HandsOverInTheOrderOfTheAnnouncements) {
  ASSERT_TRUE(queue_.add(header_of(0)));
  ASSERT_TRUE(queue_.add(header_of(1)));
  ASSERT_TRUE(queue_.add(EpochEnd{}));
  ASSERT_TRUE(add_fragment(1));
  EXPECT_EQ(steps(), Steps());
  EXPECT_FALSE(queue_.received().has_value());
  ASSERT_TRUE(add_fragment(0));
  EXPECT_EQ(steps(), (Steps{0, 1, -1}));
  EXPECT_EQ(queue_.received(), position_of(1));
  EXPECT_EQ(queue_.bytes_copied(), 2 * kBytes);
}

TEST_F(ReassemblyQueueTest, HandsOverOnce) {
  hand_out_.begin_session(1);
  ASSERT_TRUE(queue_.add(header_of(0)));
  ASSERT_TRUE(queue_.add(header_of(0))) << "announced twice";
  ASSERT_TRUE(add_fragment(0));
  EXPECT_EQ(steps(), Steps{0});
  connection_.sent.clear();
  ASSERT_TRUE(queue_.add(header_of(0)));
  EXPECT_EQ(connection_.take<Credit>().size(), 1U) << "its credit comes back";
  ASSERT_TRUE(add_fragment(0));
  ASSERT_TRUE(queue_.add(block_of(0)));
  ASSERT_TRUE(queue_.add(EpochEnd{}));
  ASSERT_TRUE(queue_.add(EpochEnd{}));
  EXPECT_EQ(steps(), Steps{-1});
}

TEST_F(ReassemblyQueueTest, DropsWhatIsIncompleteInANewSession) {
  ASSERT_TRUE(queue_.add(header_of(0)));
  ASSERT_TRUE(add_fragment(0));
  ASSERT_TRUE(queue_.add(header_of(1)));
  ASSERT_TRUE(queue_.add(block_of(2)));
  queue_.restart();
  EXPECT_EQ(queue_.received(), position_of(0));
  ASSERT_TRUE(add_fragment(1)) << "it was sent before the reconnect";
  EXPECT_EQ(steps(), Steps{0});
  ASSERT_TRUE(queue_.add(header_of(1)));
  ASSERT_TRUE(queue_.add(header_of(2)));
  ASSERT_TRUE(add_fragment(1));
  EXPECT_EQ(steps(), Steps{1}) << "the block of 2 is gone";
}

TEST_F(ReassemblyQueueTest, ABlockMayComeBeforeOrAfterItsHeader) {
  ASSERT_TRUE(queue_.add(block_of(0)));
  EXPECT_EQ(steps(), Steps());
  ASSERT_TRUE(queue_.add(header_of(0)));
  EXPECT_EQ(steps(), Steps{0});
  ASSERT_TRUE(queue_.add(header_of(1)));
  ASSERT_TRUE(queue_.add(block_of(1)));
  const auto microbatch = hand_out_.next({}).value();
  ASSERT_TRUE(microbatch.has_value());
  EXPECT_EQ(queue_.block_bytes_in_use(), kBytes);
  EXPECT_EQ(queue_.bytes_copied(), 0);
}

TEST_F(ReassemblyQueueTest, ABlockCountsUntilItsLastTensorIsGone) {
  ASSERT_TRUE(queue_.add(header_of(0)));
  ASSERT_TRUE(queue_.add(block_of(0)));
  auto microbatch = hand_out_.next({}).value();
  ASSERT_TRUE(microbatch.has_value());
  EXPECT_EQ(queue_.block_bytes_in_use(), kBytes);
  microbatch.reset();
  EXPECT_EQ(queue_.block_bytes_in_use(), 0);
}

TEST_F(ReassemblyQueueTest, RefusesMoreThanTheNodeHasCreditFor) {
  ASSERT_TRUE(queue_.add(header_of(0)));
  ASSERT_TRUE(queue_.add(header_of(1)));
  EXPECT_EQ(queue_.add(header_of(2)).error().code(), ErrorCode::kCorrupt);
  ASSERT_TRUE(queue_.add(block_of(5)));
  ASSERT_TRUE(queue_.add(block_of(6)));
  EXPECT_EQ(queue_.add(block_of(7)).error().code(), ErrorCode::kCorrupt);
  Status added;
  for (std::uint32_t epoch = 0; added && epoch < 10; ++epoch)
    added = queue_.add(EpochEnd{.epoch = epoch});
  EXPECT_EQ(added.error().code(), ErrorCode::kCorrupt);
}

TEST_F(ReassemblyQueueTest, HasNotReceivedWhatCameAfterAFailure) {
  ASSERT_TRUE(queue_.add(header_of(0)));
  hand_out_.fail(Error(ErrorCode::kUnavailable, "silence"));
  ASSERT_TRUE(add_fragment(0));
  EXPECT_FALSE(queue_.received().has_value()) << "the node is to send it again";
}

TEST_F(ReassemblyQueueTest, TellsOnceWhyABlockIsNotRegistered) {
  auto block = block_of(0);
  block.pin = [] { return Error(ErrorCode::kUnavailable, "the runtime refuses"); };
  ASSERT_TRUE(queue_.add(header_of(0)));
  ASSERT_TRUE(queue_.add(std::move(block)));
  EXPECT_FALSE(queue_.take_pin_failure().has_value());
  EXPECT_FALSE(hand_out_.next({}).value()->pin());
  EXPECT_EQ(queue_.take_pin_failure(), "the runtime refuses");
  EXPECT_FALSE(queue_.take_pin_failure().has_value());
}

}  // namespace
}  // namespace isocost
