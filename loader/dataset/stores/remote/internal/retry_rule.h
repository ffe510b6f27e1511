#pragma once

#include <chrono>
#include <cstdint>

#include "base/random.h"
#include "base/result.h"
#include "loader/dataset/stores/remote/http_message.h"

namespace isocost {

/// Whether a response or an error comes from the state of the server or the network, which may
/// pass.
bool may_pass(const Result<HttpResponse>& outcome);

/// Whether a response asks to send less: 429 and 503.
bool asks_to_wait(const Result<HttpResponse>& outcome);

/// Returns the pause before a request is sent again that was sent `times` times: random, up to
/// 100 ms doubled with each time, and 10 s at most. After a response with Retry-After, at least as
/// long as it says; a date there is compared with the response's own Date, or else with `now_s`
/// (seconds since 1970).
std::chrono::milliseconds retry_pause(const Result<HttpResponse>& outcome, int times,
                                      std::int64_t now_s, Random& random);

}  // namespace isocost
