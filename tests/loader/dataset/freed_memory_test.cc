#include "loader/dataset/internal/freed_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/sanitized.h"

namespace isocost {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 2000;

std::size_t faults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<std::size_t>(usage.ru_minflt);
}

// Takes memory in blocks of 1 MB, touches each page and frees them.
void use_memory() {
  constexpr std::size_t kBlockPages = 250;
  std::unique_ptr<std::byte[]> blocks[kPages / kBlockPages];
  for (auto& block : blocks) {
    block = std::make_unique_for_overwrite<std::byte[]>(kBlockPages * kPage);
    for (std::size_t page = 0; page < kBlockPages; ++page) {
      static_cast<volatile std::byte*>(block.get())[page * kPage] = std::byte{1};
    }
  }
}

TEST(FreedMemory, IsUsedAgainWithoutBeingClearedByTheKernel) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers have a malloc of their own";
  for (const char* setting : {"GLIBC_TUNABLES", "LD_PRELOAD", "MALLOC_TRIM_THRESHOLD_",
                              "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_"}) {
    if (std::getenv(setting) != nullptr) GTEST_SKIP() << setting << " is set";
  }
  keep_freed_memory();
  std::thread([] {
    use_memory();
    const std::size_t before = faults();
    use_memory();
    EXPECT_LT(faults() - before, kPages / 10);
  }).join();
}

}  // namespace
}  // namespace isocost
