#pragma once

#include <curl/curl.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// How a transfer of libcurl failed.
struct CurlFailure {
  CURLcode code = CURLE_OK;
  std::string text;                   ///< libcurl's own, which may be empty.
  bool connected = false;             ///< Whether the request could be sent.
  int proxy_status = 0;               ///< A proxy's answer to CONNECT; 0: none was asked.
  std::string server = "the server";  ///< For messages.
};

/// Whether the server's or the proxy's host has no address, or nothing listens there.
bool is_unreachable(const CurlFailure& failure);

/// Returns the error of a failed transfer. `name`: the request's; `certificate_sources`: where
/// certificates were looked for; `stall_s`: after how many seconds a slow transfer was ended.
Error http_failure(const CurlFailure& failure, std::string_view name,
                   std::string_view certificate_sources, long stall_s);

}  // namespace isocost
