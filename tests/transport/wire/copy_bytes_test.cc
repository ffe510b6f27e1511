#include "transport/wire/copy_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace isocost {
namespace {

std::vector<std::byte> random_bytes(std::size_t size, Random& random) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next() & 0xFF);
  return bytes;
}

TEST(CopyBytes, CopiesAllBytesAndNoOther) {
  Random random(1);
  constexpr std::size_t kMargin = 64;
  for (const std::size_t size : {0, 1, 15, 63, 64, 65, 127, 128, 129, 191, 1000, 4096, 70001}) {
    for (std::size_t to = 0; to <= kMargin; to += 7) {
      for (std::size_t from = 0; from <= kMargin; from += 13) {
        const std::vector<std::byte> source = random_bytes(from + size, random);
        const std::vector<std::byte> before = random_bytes(to + size + kMargin, random);
        std::vector<std::byte> expected = before;
        std::copy(source.begin() + static_cast<std::ptrdiff_t>(from), source.end(),
                  expected.begin() + static_cast<std::ptrdiff_t>(to));
        for (const std::int64_t whole : {std::int64_t{0}, std::int64_t{1} << 30}) {
          std::vector<std::byte> target = before;
          copy_part(std::span(target).subspan(to, size), std::span(source).subspan(from), whole);
          EXPECT_EQ(target, expected) << size << " bytes from " << from << " to " << to;
        }
      }
    }
  }
}

}  // namespace
}  // namespace isocost
