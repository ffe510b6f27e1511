#include "loader/dataset/internal/freed_memory.h"

#include <cstddef>
#include <cstdlib>

namespace isocost {

// A block as large as this is mapped on its own. When one is freed, glibc takes it that such blocks
// come and go: it has them in its heaps from then on, and keeps twice as much of these (mallopt(3),
// M_MMAP_THRESHOLD). Setting the limits by mallopt would override what a user has set.
void keep_freed_memory() {
  constexpr std::size_t kBlock = std::size_t{16} << 20;
  void* volatile block = std::malloc(kBlock);  // volatile, or the compiler leaves it out
  std::free(block);
}

}  // namespace isocost
