#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "loader/dataset/stores/remote/http_message.h"

namespace isocost {

struct HttpClientOptions {
  /// File of the certificates that servers' are checked against. Empty: that of SSL_CERT_FILE, else
  /// of AWS_CA_BUNDLE, else the system's.
  std::string ca_file;
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
  /// A transfer of less than 1,000 bytes a second for so long has stalled, and ends with an error.
  /// Whole seconds; a part of one counts as one.
  std::chrono::milliseconds stall_timeout = std::chrono::seconds(20);
  std::size_t max_connections = 256;  ///< At once, to all hosts together.
};

/// Sends requests over HTTP and HTTPS, many at once on one thread of its own, and keeps connections
/// for the next ones. Each request is one attempt: see RequestSender for more. Follows up to five
/// redirects of a GET or HEAD, if the request allows it, and never from HTTPS to HTTP. Where one
/// leads to another scheme, host or port, it sends no header but those that speak of the object's
/// bytes (Range, If-Match, Accept and their kind): no Authorization, no x-amz-. Thread-safe. The
/// destructor ends what is in flight with kCancelled, and joins the thread, so that it is not to
/// run in a `done`. It may wait for a name that is being resolved.
class HttpClient {
 public:
  /// Errors: kNotFound (a file of certificates that was named and is not there), kIo (one that
  /// cannot be read), kInternal.
  static Result<std::unique_ptr<HttpClient>> create(const HttpClientOptions& options = {});
  virtual ~HttpClient() = default;

  /// Receives a response, or why there is none.
  using Done = std::function<void(Result<HttpResponse>)>;

  /// Sends a request and returns. `done` is called once, on the client's thread, where it must not
  /// block. Errors given to it: kUnavailable (no connection, a name that does not resolve, a body
  /// that breaks off, a transfer that stalls), kIo (TLS, a certificate that is not trusted, with
  /// the places that were looked at, a redirect that is not followed, an answer that is not HTTP),
  /// kResourceExhausted (a body over the request's limit, headers over 256 KiB), kInvalidArgument
  /// (an address that is none, a header with a line break), kCancelled (`stop`).
  virtual void send(HttpRequest request, std::stop_token stop, Done done) = 0;

  /// Sends a request and waits for the response. Not to be called from a `done`. Errors: those that
  /// `send` gives.
  Result<HttpResponse> wait_for(HttpRequest request, const std::stop_token& stop);
};

}  // namespace isocost
