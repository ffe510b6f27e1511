#include "loader/dataset/internal/freed_memory.h"

#include <cstddef>
#include <cstdlib>

namespace isocost {

// Frees a block of a size that is mapped on its own. glibc then assumes that such blocks come and
// go: it allocates them in its heaps from then on, and keeps twice as much of these (mallopt(3),
// M_MMAP_THRESHOLD). Setting the limits by mallopt would override a user's settings.
void keep_freed_memory() {
  constexpr std::size_t kBlock = std::size_t{16} << 20;
  void* volatile block = std::malloc(kBlock);  // volatile, so that the compiler does not remove it
  std::free(block);
}

}  // namespace isocost
