#pragma once

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>

#include "base/result.h"

namespace isocost::cli {

struct HttpLimits {
  std::chrono::milliseconds timeout{5000};  ///< For the whole answer.
  std::size_t max_bytes = std::size_t{64} << 20;
};

/// The address that a user means: "9464" and "host:9464" are completed to
/// "http://127.0.0.1:9464/metrics". Errors: kInvalidArgument.
Result<std::string> metrics_url(const std::string& text);

/// Body of the answer to a GET over http or https, without proxies and redirects. Errors:
/// kUnavailable where nothing listens, kDeadlineExceeded, kUnsupported for any status but 200,
/// kResourceExhausted for a longer answer, kCancelled, kIo.
Result<std::string> http_get(const std::string& url, const HttpLimits& limits,
                             const std::stop_token& stop);

}  // namespace isocost::cli
