#include "base/buffer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "base/sanitized.h"

namespace isocost {
namespace {

TEST(BufferPool, AlignsAndCounts) {
  BufferPool pool;
  const Buffer buffer = pool.allocate(1000);
  EXPECT_EQ(buffer.size(), 1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0U);
  EXPECT_EQ(pool.bytes_in_use(), 1024);
}

TEST(BufferPool, BeginsLargeBlocksAtLargePages) {
  BufferPool pool(/*keep_bytes=*/0);
  constexpr std::int64_t kSize = 5 << 20;
  Buffer buffer = pool.allocate(kSize);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % (2 << 20), 0U);
  buffer.data()[0] = buffer.data()[kSize - 1] = std::byte{1};
}

// malloc would keep a large block as long as something after it is in use.
TEST(BufferPool, GivesLargeBlocksBackToTheKernel) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers watch what malloc hands out";
  for (const std::int64_t size : {std::int64_t{1} << 20, std::int64_t{9} << 20}) {
    BufferPool pool(/*keep_bytes=*/0);
    std::byte* data = nullptr;
    {
      Buffer buffer = pool.allocate(size);
      data = buffer.data();
      data[0] = data[size - 1] = std::byte{1};
      EXPECT_EQ(msync(data, static_cast<std::size_t>(size), MS_ASYNC), 0);
    }
    EXPECT_EQ(msync(data, static_cast<std::size_t>(size), MS_ASYNC), -1);
    EXPECT_EQ(errno, ENOMEM) << "it is still mapped";
  }
}

TEST(BufferPool, ReusesABlockOfTheSameClass) {
  BufferPool pool;
  const std::byte* first = nullptr;
  {
    const Buffer buffer = pool.allocate(1024);
    first = buffer.data();
  }
  EXPECT_EQ(pool.bytes_in_use(), 0);
  EXPECT_EQ(pool.bytes_kept(), 1024);
  EXPECT_EQ(pool.allocate(1000).data(), first);
}

TEST(BufferPool, WastesAtMostAnEighth) {
  BufferPool pool;
  for (std::int64_t size = 257; size < 3'000'000; size += size / 7 + 1) {
    const Buffer buffer = pool.allocate(size);
    EXPECT_GE(pool.bytes_in_use(), size);
    EXPECT_LE(pool.bytes_in_use(), size + size / 8 + 1);
  }
}

TEST(BufferPool, KeepsNoMoreThanItMay) {
  BufferPool pool(/*keep_bytes=*/1024);
  {
    const Buffer a = pool.allocate(1024);
    const Buffer b = pool.allocate(1024);
  }
  EXPECT_EQ(pool.bytes_kept(), 1024);
}

TEST(BufferPool, DropsTheSizesThatWereNotAskedForTheLongest) {
  BufferPool pool(/*keep_bytes=*/2048);
  static_cast<void>(pool.allocate(1024));
  const std::byte* last = nullptr;
  {
    const Buffer buffer = pool.allocate(2048);
    last = buffer.data();
  }
  EXPECT_EQ(pool.bytes_kept(), 2048);
  EXPECT_EQ(pool.allocate(2048).data(), last);
}

TEST(BufferPool, FitsLooselyWhereItMay) {
  BufferPool pool(/*keep_bytes=*/1 << 20, BlockFit::kLoose);
  const std::byte* first = nullptr;
  {
    const Buffer buffer = pool.allocate(4096);
    first = buffer.data();
  }
  {
    const Buffer quarter = pool.allocate(1024);
    EXPECT_EQ(quarter.data(), first);
    EXPECT_EQ(quarter.size(), 1024);
    EXPECT_EQ(pool.bytes_in_use(), 4096);
  }
  const Buffer less = pool.allocate(960);
  EXPECT_EQ(pool.bytes_in_use(), 960) << "a block more than four times as large was handed out";
}

TEST(BufferPool, HoldsTwoOfTheLargestBlockWhereItFitsLoosely) {
  BufferPool pool(/*keep_bytes=*/1 << 20, BlockFit::kLoose);
  std::optional<Buffer> used = pool.allocate(4096);
  {
    const Buffer a = pool.allocate(4096);
    const Buffer b = pool.allocate(4096);
  }
  EXPECT_EQ(pool.bytes_kept(), 4096) << "beside the one in use";
  used.reset();
  EXPECT_EQ(pool.bytes_kept(), 2 * 4096);
}

TEST(BufferPool, MakesNoBlocksOfItsOwnForSizesThatVary) {
  BufferPool pool(/*keep_bytes=*/1 << 20, BlockFit::kLoose);
  std::set<const std::byte*> blocks;
  Buffer last;  // A loop has the last microbatch's while the next one's is made.
  for (int i = 0; i < 60; ++i) {
    Buffer next = pool.allocate(i < 2 ? 16000 : 4500 + i * 7919 % 11500);
    blocks.insert(next.data());
    last = std::move(next);
  }
  EXPECT_EQ(blocks.size(), 2);
}

TEST(BufferPool, KnowsItsBlocks) {
  BufferPool pool;
  const int elsewhere = 0;
  std::optional<Buffer> buffer = pool.allocate(512);
  const std::byte* inside = buffer->data() + 511;
  EXPECT_TRUE(pool.owns(inside));
  EXPECT_FALSE(pool.owns(&elsewhere));
  buffer.reset();
  EXPECT_FALSE(pool.owns(inside));
}

TEST(BufferPool, ABufferOutlivesItsPool) {
  Buffer survivor;
  {
    BufferPool pool;
    survivor = pool.allocate(300);
  }
  survivor.bytes()[299] = std::byte{7};
  EXPECT_EQ(survivor.bytes()[299], std::byte{7});
}

TEST(BufferPool, RefusesAbsurdSizes) {
  BufferPool pool;
  EXPECT_THROW(pool.allocate(-1), std::bad_alloc);
  EXPECT_THROW(pool.allocate(std::int64_t{1} << 62), std::bad_alloc);
}

TEST(Buffer, MovesLeaveTheSourceEmpty) {
  BufferPool pool;
  Buffer a = pool.allocate(10);
  const Buffer b = std::move(a);
  EXPECT_EQ(a.size(), 0);  // NOLINT(bugprone-use-after-move): that is the point.
  EXPECT_EQ(b.size(), 10);
}

}  // namespace
}  // namespace isocost
