#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/stores/remote/http_client.h"

namespace isocost {

/// Calls `send` and blocks until the `done` that it was given is called, which is certain. Returns
/// what `done` was given.
inline Result<HttpResponse> wait_for_response(const std::function<void(HttpClient::Done)>& send) {
  struct Answer {
    Mutex mutex;
    ConditionVariable arrived;
    std::optional<Result<HttpResponse>> outcome ISOCOST_GUARDED_BY(mutex);
  };
  // Shared, since `done` still holds the mutex when this function may already return.
  const auto answer = std::make_shared<Answer>();
  send([answer](Result<HttpResponse> outcome) {
    const MutexLock lock(answer->mutex);
    answer->outcome = std::move(outcome);
    answer->arrived.notify_all();
  });
  const MutexLock lock(answer->mutex);
  answer->arrived.wait(answer->mutex, [&answer]() ISOCOST_REQUIRES(answer->mutex) {
    return answer->outcome.has_value();
  });
  std::optional<Result<HttpResponse>>& outcome = answer->outcome;
  if (!outcome) return Error(ErrorCode::kInternal, "a wait without an answer");
  return *std::move(outcome);
}

}  // namespace isocost
