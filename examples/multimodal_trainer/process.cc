#include "examples/multimodal_trainer/process.h"

#include <malloc.h>

#include <chrono>
#include <limits>

namespace isocost {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void keep_all_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace isocost
