#pragma once

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>

#include "base/result.h"

namespace isocost::cli {

struct HttpLimits {
  std::chrono::milliseconds timeout{5000};  ///< Limit for the whole answer.
  std::size_t max_bytes = std::size_t{64} << 20;
};

/// Completes the address of a node's metrics to the URL of its status page: "9464",
/// "127.0.0.1:9464" and "http://127.0.0.1:9464/metrics" become
/// "http://127.0.0.1:9464/status.json"; other paths stay. Errors: kInvalidArgument.
Result<std::string> status_url(const std::string& text);

/// Returns the body of the answer to a GET over http or https. Uses no proxy and follows no
/// redirect. Blocks until the answer has come, the time-out has passed or `stop` is requested.
/// Errors: kUnavailable if nothing listens, kDeadlineExceeded, kUnsupported for a status other than
/// 200, kResourceExhausted for a longer answer, kCancelled, kIo.
Result<std::string> http_get(const std::string& url, const HttpLimits& limits,
                             const std::stop_token& stop);

}  // namespace isocost::cli
