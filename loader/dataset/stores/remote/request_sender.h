#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include "base/log.h"
#include "base/result.h"
#include "loader/dataset/stores/remote/http_client.h"
#include "loader/dataset/stores/remote/http_message.h"

namespace isocost {

struct RequestSenderOptions {
  /// A request is repeated until so long has passed since it was first sent.
  std::chrono::milliseconds give_up_after = std::chrono::minutes(1);
  /// A request is given up so early if the host has no address or nothing listens there, and the
  /// server has not answered any request: its address may be wrong.
  std::chrono::milliseconds give_up_unreachable_after = std::chrono::seconds(5);
  std::size_t most_in_flight = 256;
  LogSink log = {};
};

/// Counts of a sender's work since it was made.
struct RequestCounts {
  std::int64_t requests = 0;  ///< Attempts, with those that were repeated.
  std::int64_t bytes = 0;     ///< Received in bodies.
  std::int64_t retries = 0;
  std::int64_t throttled = 0;  ///< Responses that asked to wait: 429 and 503.
  std::int64_t in_flight = 0;
  std::int64_t allowed_in_flight = 0;
};

/// Sends requests to one server, and repeats those that its state refuses: after 408, 429, 500,
/// 502, 503 and 504, and after errors of the connection, with a pause that doubles, is drawn at
/// random up to its length, and is at least what Retry-After asks for. The last attempt is made
/// when the time is over. An attempt whose bytes HttpRequest::on_broken kept, at least 64 KiB of
/// them, counts as the first one. A server that cannot be reached and has not answered yet is given
/// up earlier, since its address may be wrong. The number in flight doubles each round of responses
/// until the server first asks to wait (429, 503), which halves it, and then grows by one a round;
/// further requests stand in a queue. Logs when a server begins to refuse requests, and when it
/// answers again. Thread-safe. The destructor ends what is queued and in flight with kCancelled,
/// and waits for that, so that it is not to run in a `done`.
class RequestSender {
 public:
  /// Makes the request of an attempt, which may be signed with the time. Called for each attempt on
  /// a thread of the sender, where it may block for as long as credentials take to be renewed.
  using MakeRequest = std::function<Result<HttpRequest>()>;

  /// `client` must outlive the sender.
  static std::unique_ptr<RequestSender> create(HttpClient& client,
                                               const RequestSenderOptions& options = {});
  virtual ~RequestSender() = default;

  /// Sends a request and returns. `done` is called once, on a thread of the sender or the client,
  /// where it must not block, with a response that is not to be repeated, whatever its status, or
  /// with the last one or the last error when the time is over. Errors: those of HttpClient::send
  /// and of `make`, whose kUnavailable is repeated, too.
  virtual void send(MakeRequest make, std::stop_token stop, HttpClient::Done done) = 0;
  /// Sends a request and waits. Not to be called from a `done` or a `make`.
  Result<HttpResponse> wait_for(MakeRequest make, const std::stop_token& stop);

  virtual RequestCounts counts() const = 0;
};

}  // namespace isocost
