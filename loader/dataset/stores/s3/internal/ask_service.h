#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/result.h"
#include "loader/dataset/stores/remote/http_message.h"

namespace isocost {

/// Sends a request to a service that hands out credentials, and waits for the response. Errors:
/// those of HttpClient::send.
using AskService = std::function<Result<HttpResponse>(HttpRequest, const std::stop_token&)>;

/// Asks up to three times, with pauses of a second, while the service answers with a status of 5xx
/// or 429. A service that is not there is asked once. Errors: those of `ask`; kCancelled.
Result<HttpResponse> ask_patiently(const AskService& ask, const HttpRequest& request,
                                   const std::stop_token& stop);

/// Returns whether a text can be the value of a header: it is not empty and has no control
/// characters.
bool is_header_value(std::string_view text);

/// Returns an error of a service at an address: what it answered, without its body, which may have
/// credentials. kUnavailable for a status that may pass, else kIo.
Error refused_by(std::string_view service, const HttpResponse& response);

}  // namespace isocost
