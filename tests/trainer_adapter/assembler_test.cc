#include "trainer_adapter/internal/assembler.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace isocost {
namespace {

constexpr std::int64_t kBytes = 8;

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

class AssemblerTest : public testing::Test {
 protected:
  Result<std::optional<Assembler::Assembled>> add_fragment(std::uint32_t step) {
    const std::vector<std::byte> bytes(kBytes);
    const std::vector<std::span<const std::byte>> frames = {bytes};
    return assembler_.add(
        FragmentHeader{position_of(step), 0, {{{"vision.patches", DType::kUInt8, {1, kBytes}}, 0}}},
        frames);
  }
  // Returns whether a call has begun a microbatch and not completed it.
  static bool is_incomplete(const Result<std::optional<Assembler::Assembled>>& result) {
    return result && !result->has_value();
  }
  // Returns the microbatch that a call has completed.
  static Microbatch completed(Result<std::optional<Assembler::Assembled>> result) {
    auto assembled = *std::move(result).value();
    EXPECT_EQ(assembled.position, assembled.microbatch.value().header.position);
    return *std::move(assembled.microbatch);
  }

  BufferPool pool_;
  Assembler assembler_{ClientOptions(), pool_};
};

TEST_F(AssemblerTest, AssemblesSeveralAtOnce) {
  EXPECT_TRUE(is_incomplete(assembler_.begin(header_of(0), /*has_block=*/false)));
  EXPECT_TRUE(is_incomplete(assembler_.begin(header_of(1), /*has_block=*/false)));
  EXPECT_EQ(completed(add_fragment(1)).header.position, position_of(1));
  EXPECT_EQ(completed(add_fragment(0)).header.position, position_of(0));
  EXPECT_EQ(assembler_.bytes_copied(), 2 * kBytes);
  EXPECT_TRUE(is_incomplete(add_fragment(0))) << "it is complete already";
  EXPECT_EQ(assembler_.bytes_copied(), 2 * kBytes);
}

TEST_F(AssemblerTest, CompletesAtOnceWhatHasNoBytes) {
  MicrobatchHeader header;
  header.position = position_of(3);
  EXPECT_EQ(completed(assembler_.begin(header, /*has_block=*/false)).header.position,
            position_of(3));
}

TEST_F(AssemblerTest, DropsWhatIsIncomplete) {
  EXPECT_TRUE(is_incomplete(assembler_.begin(header_of(1), /*has_block=*/false)));
  assembler_.keep(block_of(2));
  assembler_.drop();
  EXPECT_TRUE(is_incomplete(add_fragment(1))) << "it was sent before the reconnect";
  EXPECT_EQ(assembler_.bytes_copied(), 0);
  EXPECT_TRUE(is_incomplete(assembler_.begin(header_of(1), /*has_block=*/false)));
  EXPECT_TRUE(is_incomplete(assembler_.begin(header_of(2), /*has_block=*/true)))
      << "the block of 2 is gone";
  EXPECT_EQ(completed(add_fragment(1)).header.position, position_of(1));
}

TEST_F(AssemblerTest, ABlockMayComeBeforeOrAfterItsHeader) {
  assembler_.keep(block_of(0));
  const Microbatch first = completed(assembler_.begin(header_of(0), /*has_block=*/true));
  EXPECT_EQ(assembler_.block_bytes_in_use(), kBytes);
  EXPECT_TRUE(is_incomplete(assembler_.begin(header_of(1), /*has_block=*/false)));
  const Microbatch second = completed(assembler_.add(block_of(1)));
  EXPECT_EQ(assembler_.block_bytes_in_use(), 2 * kBytes);
  EXPECT_EQ(assembler_.bytes_copied(), 0);
}

TEST_F(AssemblerTest, ABlockCountsUntilItsLastTensorIsGone) {
  EXPECT_TRUE(is_incomplete(assembler_.begin(header_of(0), /*has_block=*/false)));
  {
    const Microbatch microbatch = completed(assembler_.add(block_of(0)));
    EXPECT_EQ(assembler_.block_bytes_in_use(), kBytes);
  }
  EXPECT_EQ(assembler_.block_bytes_in_use(), 0);
}

TEST_F(AssemblerTest, RefusesABlockBesideFragments) {
  MicrobatchHeader header = header_of(0);
  header.samples.push_back(header.samples.front());
  header.tensors.front().shape = {2, kBytes};
  header.rows = {1, 1};
  EXPECT_TRUE(is_incomplete(assembler_.begin(header, /*has_block=*/false)));
  EXPECT_TRUE(is_incomplete(add_fragment(0)));
  EXPECT_EQ(assembler_.add(block_of(0)).error().code(), ErrorCode::kCorrupt);
}

TEST_F(AssemblerTest, TellsOnceWhyABlockIsNotRegistered) {
  auto block = block_of(0);
  block.pin = [] { return Error(ErrorCode::kUnavailable, "the runtime refuses"); };
  EXPECT_TRUE(is_incomplete(assembler_.begin(header_of(0), /*has_block=*/false)));
  const Microbatch microbatch = completed(assembler_.add(std::move(block)));
  EXPECT_FALSE(assembler_.take_pin_failure().has_value());
  EXPECT_FALSE(microbatch.pin());
  EXPECT_EQ(assembler_.take_pin_failure(), "the runtime refuses");
  EXPECT_FALSE(assembler_.take_pin_failure().has_value());
}

}  // namespace
}  // namespace isocost
