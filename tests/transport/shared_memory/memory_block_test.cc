#include "transport/shared_memory/memory_block.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace isocost {
namespace {

const std::int64_t kPage = sysconf(_SC_PAGESIZE);

FileDescriptor passed(const MemoryBlock& block) {
  return FileDescriptor(fcntl(block.descriptor(), F_DUPFD_CLOEXEC, 0));
}

void fill(std::span<std::byte> bytes, int value) {
  std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(value));
}

bool is_all(std::span<const std::byte> bytes, int value) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](std::byte byte) { return byte == static_cast<std::byte>(value); });
}

TEST(MemoryBlock, IsReadByItsReceiver) {
  const MemoryBlock block = MemoryBlock::create(3 * kPage - 1).value();
  EXPECT_EQ(block.size(), 3 * kPage);
  fill(block.bytes(), 7);
  const Mapping received = map_block(passed(block)).value();
  EXPECT_EQ(received.bytes().size(), block.bytes().size());
  EXPECT_TRUE(is_all(received.bytes(), 7));
}

TEST(MemoryBlock, NobodyCanResizeIt) {
  const MemoryBlock block = MemoryBlock::create(kPage).value();
  const FileDescriptor file = passed(block);
  EXPECT_NE(ftruncate(file.get(), 0), 0);
  EXPECT_NE(ftruncate(file.get(), 2 * kPage), 0);
  EXPECT_NE(fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE), 0) << "nor seal it further";
}

TEST(MapBlock, ReadsWhatIsWrittenNextWithoutANewMapping) {
  const MemoryBlock block = MemoryBlock::create(8 * kPage).value();
  const Mapping received = map_block(passed(block)).value();
  for (int round = 1; round <= 3; ++round) {
    fill(block.bytes(), round);
    EXPECT_TRUE(is_all(received.bytes(), round));
    fill(received.bytes(), 99);  // a trainer may
  }
}

// A private mapping would keep what its locked pages held. A system that lets this user lock no
// memory skips this: a lock is what it is about.
TEST(MapBlock, LockedMemoryShowsWhatIsWrittenNext) {
  const MemoryBlock block = MemoryBlock::create(2 * kPage).value();
  const Mapping received = map_block(passed(block)).value();
  fill(block.bytes(), 1);
  if (mlock(received.bytes().data(), received.bytes().size()) != 0) {
    GTEST_SKIP() << "this process may lock no memory";
  }
  fill(block.bytes(), 2);
  EXPECT_TRUE(is_all(received.bytes(), 2));
}

TEST(MapBlock, MayHaveMoreSealsThanItNeeds) {
  constexpr unsigned kNoExec = 8;  // MFD_NOEXEC_SEAL
  const FileDescriptor file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExec));
  // Before Linux 6.3 no memory can have that seal.
  if (!file.is_open()) GTEST_SKIP() << "this kernel does not know MFD_NOEXEC_SEAL";
  ASSERT_EQ(ftruncate(file.get(), kPage), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_TRUE(map_block(file).has_value());
}

TEST(MemoryBlock, AChildOfForkDoesNotHaveIt) {
  const MemoryBlock block = MemoryBlock::create(kPage).value();
  const pid_t child = fork();
  if (child == 0) {
    unsigned char there = 0;
    _exit(mincore(block.bytes().data(), static_cast<std::size_t>(kPage), &there) == 0 ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(MapBlock, OutlivesItsSender) {
  FileDescriptor file;
  {
    const MemoryBlock block = MemoryBlock::create(kPage).value();
    fill(block.bytes(), 5);
    file = passed(block);
  }
  const Mapping received = map_block(file).value();
  EXPECT_TRUE(is_all(received.bytes(), 5));
}

ErrorCode refusal(const FileDescriptor& file) { return map_block(file).error().code(); }

TEST(MapBlock, MemoryThatMayChangeItsSizeIsRefused) {
  const FileDescriptor open_memory(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(open_memory.get(), kPage), 0);
  EXPECT_EQ(refusal(open_memory), ErrorCode::kCorrupt);
  ASSERT_EQ(fcntl(open_memory.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  EXPECT_EQ(refusal(open_memory), ErrorCode::kCorrupt) << "it could still shrink";
  EXPECT_EQ(refusal(FileDescriptor(open("/dev/zero", O_RDWR | O_CLOEXEC))), ErrorCode::kCorrupt);
  EXPECT_EQ(refusal(FileDescriptor()), ErrorCode::kCorrupt);
}

TEST(MapBlock, EmptyMemoryIsRefused) {
  const FileDescriptor empty(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(fcntl(empty.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_EQ(refusal(empty), ErrorCode::kCorrupt);
}

TEST(MemoryBlock, ImpossibleSizesAreErrors) {
  EXPECT_FALSE(MemoryBlock::create(0).has_value());
  EXPECT_FALSE(MemoryBlock::create(-1).has_value());
  EXPECT_FALSE(MemoryBlock::create(INT64_MAX).has_value());
}

}  // namespace
}  // namespace isocost
