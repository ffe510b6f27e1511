#include "transport/shared_memory/block_filling.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace isocost {
namespace {

using Progress = BlockFilling::Progress;

// Two samples: 2 and 1 rows of 3 bytes; only the second has lengths.
MicrobatchHeader header() {
  MicrobatchHeader header;
  header.samples = {{10, 1.0F, 1}, {11, 1.0F, 1}};
  header.tensors = {{"vision.patches", DType::kUInt8, {3, 3}}, {"llm.lengths", DType::kInt32, {1}}};
  header.rows = {2, 0, 1, 1};
  return header;
}

NamedTensor tensor(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                   std::vector<std::uint8_t> content) {
  const auto owner = std::make_shared<const std::vector<std::uint8_t>>(std::move(content));
  return {name,
          {dtype, std::move(shape), reinterpret_cast<const std::byte*>(owner->data()), owner}};
}

Fragment first() {
  return {{}, 0, {tensor("vision.patches", DType::kUInt8, {2, 3}, {1, 2, 3, 4, 5, 6})}};
}
Fragment second() {
  return {{},
          1,
          {tensor("llm.lengths", DType::kInt32, {1}, {8, 0, 0, 0}),
           tensor("vision.patches", DType::kUInt8, {1, 3}, {7, 8, 9})}};
}

class BlockFillingTest : public testing::Test {
 protected:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(128);
  BlockFilling filling_{BlockLayout::of(header()).value(), 2, bytes_};
};

TEST_F(BlockFillingTest, TensorsLieOneBehindTheOtherAndAligned) {
  EXPECT_EQ(filling_.layout().offsets(), (std::vector<std::int64_t>{0, 64}));
  EXPECT_EQ(filling_.layout().bytes, 128);
}

TEST_F(BlockFillingTest, PutsRowsInTheOrderOfTheSamples) {
  EXPECT_EQ(filling_.add(second()), Progress::kAdded);
  EXPECT_EQ(filling_.add(first()), Progress::kComplete);
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes_[static_cast<std::size_t>(i)]), i + 1);
  }
  EXPECT_EQ(std::to_integer<int>(bytes_[64]), 8);
}

TEST_F(BlockFillingTest, ASampleThatComesAgainDoesNotCount) {
  EXPECT_EQ(filling_.add(first()), Progress::kAdded);
  EXPECT_EQ(filling_.add(first()), Progress::kAdded);
  EXPECT_EQ(filling_.add(second()), Progress::kComplete);
}

TEST_F(BlockFillingTest, OtherTensorsThanAnnouncedAreRefused) {
  const std::vector<std::uint8_t> content(12);
  const auto refuses = [&](std::uint32_t sample, std::vector<NamedTensor> tensors) {
    return filling_.add({{}, sample, std::move(tensors)}) == Progress::kRefused;
  };
  EXPECT_TRUE(refuses(2, {}));
  EXPECT_TRUE(refuses(0, {tensor("audio.mel", DType::kUInt8, {2, 3}, content)}));
  EXPECT_TRUE(refuses(0, {tensor("vision.patches", DType::kUInt8, {3, 3}, content)}));
  EXPECT_TRUE(refuses(0, {tensor("vision.patches", DType::kUInt8, {2, 4}, content)}));
  EXPECT_TRUE(refuses(0, {tensor("vision.patches", DType::kInt32, {2, 3}, content)}));
  EXPECT_TRUE(refuses(0, {tensor("vision.patches", DType::kUInt8, {2}, content)}));
  const NamedTensor good = first().tensors.front();
  EXPECT_TRUE(refuses(0, {good, good}));
  EXPECT_EQ(filling_.add(first()), Progress::kAdded) << "nothing of these counted";
}

TEST(BlockLayout, ContradictionsAreErrors) {
  MicrobatchHeader wrong = header();
  wrong.rows = {2, 0, 1};
  EXPECT_FALSE(BlockLayout::of(wrong).has_value());
  wrong = header();
  wrong.rows[0] = 5;
  EXPECT_FALSE(BlockLayout::of(wrong).has_value());
  wrong = header();
  wrong.tensors[0].shape[1] = INT64_MAX;
  EXPECT_FALSE(BlockLayout::of(wrong).has_value());
}

TEST(BlockFilling, OneOfManyThreadsCompletesIt) {
  constexpr std::uint32_t kSamples = 64;
  MicrobatchHeader many;
  many.tensors = {{"vision.patches", DType::kUInt8, {kSamples, 3}}};
  for (std::uint32_t i = 0; i < kSamples; ++i) {
    many.samples.push_back({i, 1.0F, 1});
    many.rows.push_back(1);
  }
  std::vector<std::byte> bytes(256);
  BlockFilling filling(BlockLayout::of(many).value(), kSamples, bytes);
  std::atomic<int> complete = 0;
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint32_t i = t; i < kSamples; i += 4) {
          const auto value = static_cast<std::uint8_t>(i);
          const auto progress = filling.add(
              {{}, i, {tensor("vision.patches", DType::kUInt8, {1, 3}, {value, value, value})}});
          complete += progress == Progress::kComplete ? 1 : 0;
        }
      });
    }
  }
  EXPECT_EQ(complete, 1);
  for (std::size_t i = 0; i < std::size_t{3} * kSamples; ++i) {
    EXPECT_EQ(std::to_integer<std::size_t>(bytes[i]), i / 3);
  }
}

}  // namespace
}  // namespace isocost
