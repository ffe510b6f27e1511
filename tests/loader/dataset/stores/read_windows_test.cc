#include "loader/dataset/stores/read_windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"

namespace isocost {
namespace {

// Counts the reads.
class CountingSource final : public ByteSource {
 public:
  CountingSource(std::span<const std::byte> bytes, int& reads) : bytes_(bytes), reads_(reads) {}
  std::int64_t size() const override { return bytes_.size(); }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> to) const override {
    ++reads_;
    return bytes_.read_at(offset, to);
  }

 private:
  MemoryByteSource bytes_;
  int& reads_;
};

class ReadWindowsTest : public testing::Test {
 protected:
  ReadWindowsTest() {
    Random random(1);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random.below(256));
  }
  void expect_read(std::int64_t offset, std::size_t count) {
    std::vector<std::byte> expected(count);
    std::vector<std::byte> found(count);
    const MemoryByteSource memory(bytes_);
    const std::size_t length = memory.read_at(offset, expected).value();
    ASSERT_EQ(windows_.read_at(offset, found).value(), length) << offset << " " << count;
    EXPECT_EQ(found, expected);
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(1 << 20);
  int reads_ = 0;
  ReadWindows windows_{std::make_unique<CountingSource>(bytes_, reads_)};
};

TEST_F(ReadWindowsTest, GivesTheSourcesBytes) {
  Random random(2);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t most = std::size_t{1} << random.below(19);
    expect_read(static_cast<std::int64_t>(random.below(bytes_.size() + 100)),
                random.below(most + 1));
  }
  expect_read(static_cast<std::int64_t>(bytes_.size()), 1);
  EXPECT_EQ(windows_.read_at(-1, {}).error().code(), ErrorCode::kInvalidArgument);
}

// The next header is read before the present member is probed.
TEST_F(ReadWindowsTest, ALargeMemberTakesOneRead) {
  constexpr std::int64_t kMember = 100'000;
  for (std::int64_t member = 0; member < 9; ++member) {
    expect_read((member + 1) * kMember, 4096);
    expect_read(member * kMember + 512, 4096);
    expect_read(member * kMember + 512, 512);
  }
  EXPECT_EQ(reads_, 10);
}

TEST_F(ReadWindowsTest, SmallMembersShareReads) {
  for (std::int64_t at = 0; at < std::ssize(bytes_); at += 1536) expect_read(at + 512, 512);
  EXPECT_LE(reads_, 13);  // 6, 12, 24, 48, 96, then 128 KiB each
}

}  // namespace
}  // namespace isocost
