#include "loader/dataset/stores/internal/ask_at_once.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace isocost {

Status ask_at_once(std::size_t count, std::size_t most, const std::stop_token& stop,
                   const std::function<Status(std::size_t, const std::stop_token&)>& ask) {
  std::stop_source failing;
  const std::stop_callback on_stop(stop, [&failing] { failing.request_stop(); });
  Mutex mutex;
  std::optional<Error> failure;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count && !failing.stop_requested(); i = next++) {
      Status asked = ask(i, failing.get_token());
      if (asked) continue;
      const MutexLock lock(mutex);
      if (!failure) failure = std::move(asked).error();
      failing.request_stop();
    }
  };
  {
    std::vector<std::jthread> threads(std::min(most, count));
    for (std::jthread& thread : threads) thread = std::jthread(work);
  }
  if (stop.stop_requested())
    return Error(ErrorCode::kCancelled, "stopped while asking for objects");
  if (failure) return *std::move(failure);
  return {};
}

}  // namespace isocost
