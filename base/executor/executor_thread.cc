#include <algorithm>
#include <thread>

#include "base/executor/executor.h"

namespace isocost {

std::unique_ptr<Executor> make_executor(std::size_t workers) {
  if (workers == 0) workers = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  return make_thread_executor(workers, "isocost-worker");
}

}  // namespace isocost
