#include "base/byte_source.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace isocost {
namespace {

TEST(MemoryByteSource, ReadsUpToItsEnd) {
  constexpr std::string_view kText = "equal cost";
  const MemoryByteSource source(std::as_bytes(std::span(kText)));
  std::array<std::byte, 8> out{};
  EXPECT_EQ(source.size(), 10);
  EXPECT_EQ(source.read_at(6, out).value(), 4U);
  EXPECT_EQ(std::memcmp(out.data(), "cost", 4), 0);
  EXPECT_EQ(source.read_at(10, out).value(), 0U);
  EXPECT_EQ(source.read_at(99, out).value(), 0U);
}

TEST(MemoryByteSource, RefusesNegativeOffsets) {
  const MemoryByteSource source({});
  std::array<std::byte, 1> out{};
  EXPECT_EQ(source.read_at(-1, out).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace isocost
