#include "base/tensor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>

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

TEST(SharedTensor, IsViewedAsItsOwnTypeOnly) {
  BufferPool pool;
  const SharedTensor ids = make_tensor(pool.allocate(24), DType::kInt64, {3}).value();
  EXPECT_EQ(ids.as<std::int64_t>().size(), 3U);
  try {
    static_cast<void>(ids.as<std::int32_t>());
    ADD_FAILURE() << "ids are int64";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(error.what(), "the tensor is int64, and not int32: ask for its own type");
  }
}

TEST(MakeTensor, AllowsNoRows) {
  BufferPool pool;
  EXPECT_EQ(make_tensor(pool.allocate(0), DType::kInt32, {0, 5}).value().elements(), 0);
}

}  // namespace
}  // namespace isocost
