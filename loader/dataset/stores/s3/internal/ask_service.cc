#include "loader/dataset/stores/s3/internal/ask_service.h"

#include <algorithm>
#include <chrono>

#include "base/mutex.h"
#include "loader/dataset/stores/s3/internal/error_document.h"

namespace isocost {
namespace {

constexpr int kMostTries = 3;
constexpr std::chrono::seconds kPause{1};

bool may_pass(int status) { return status >= 500 || status == 429; }

// Returns whether the time has passed, and not a request to stop.
bool pause(const std::stop_token& stop) {
  Mutex mutex;
  ConditionVariable never;
  const MutexLock lock(mutex);
  const auto until = std::chrono::steady_clock::now() + kPause;
  never.wait_until(mutex, stop, until, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace

Result<HttpResponse> ask_patiently(const AskService& ask, const HttpRequest& request,
                                   const std::stop_token& stop) {
  for (int tries = 1;; ++tries) {
    Result<HttpResponse> response = ask(request, stop);
    if (!response || !may_pass(response->status) || tries == kMostTries) return response;
    if (!pause(stop)) return Error(ErrorCode::kCancelled, "stopped while it asked for credentials");
  }
}

bool is_header_value(std::string_view text) {
  return !text.empty() && std::ranges::none_of(text, [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
  });
}

Error refused_by(std::string_view service, const HttpResponse& response) {
  const ErrorCode code = may_pass(response.status) ? ErrorCode::kUnavailable : ErrorCode::kIo;
  std::string text =
      std::string(service) + " answers with status " + std::to_string(response.status);
  if (const auto document = parse_error_document(response.body)) {
    text += ", " + document->code;
    if (!document->message.empty()) text += ": " + document->message;
  }
  return {code, text};
}

}  // namespace isocost
