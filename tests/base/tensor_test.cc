#include "base/tensor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace isocost {
namespace {

TEST(MakeTensor, SharesTheBuffer) {
  BufferPool pool;
  Buffer buffer = pool.allocate(24);
  const std::byte* data = buffer.data();
  const SharedTensor tensor = make_tensor(std::move(buffer), DType::kFloat32, {2, 3}).value();
  EXPECT_EQ(tensor.data, data);
  EXPECT_EQ(tensor.elements(), 6);
  EXPECT_EQ(tensor.as<float>().size(), 6U);
  EXPECT_GT(pool.bytes_in_use(), 0);
}

TEST(MakeTensor, RefusesShapesThatDoNotFit) {
  BufferPool pool;
  EXPECT_FALSE(make_tensor(pool.allocate(24), DType::kFloat32, {2, 4}).has_value());
  EXPECT_FALSE(make_tensor(pool.allocate(24), DType::kFloat32, {-2, -3}).has_value());
  EXPECT_FALSE(
      make_tensor(pool.allocate(24), DType::kInt64, {std::numeric_limits<std::int64_t>::max(), 8})
          .has_value());
}

TEST(MakeTensor, AllowsNoRows) {
  BufferPool pool;
  EXPECT_EQ(make_tensor(pool.allocate(0), DType::kInt32, {0, 5}).value().elements(), 0);
}

}  // namespace
}  // namespace isocost
