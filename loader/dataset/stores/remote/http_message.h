#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isocost {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// The response of a server, whatever its status.
struct HttpResponse {
  int status = 0;
  HttpHeaders headers;  ///< Names in lower case, in the order of the response.
  std::string body;

  /// Returns the first value of a header, whose name is in lower case; empty: there is none.
  std::string_view header(std::string_view lower_case_name) const;
};

/// One request to an HTTP server.
struct HttpRequest {
  std::string method = "GET";
  /// The address with its query. It may carry a secret, so that no message shows it. A user and a
  /// password in it are sent as basic authentication.
  std::string url;
  /// The name of the object in messages: an address without query and user. Empty: that of `url`.
  std::string name;
  /// The server in messages of connections that fail, such as a bucket's endpoint.
  std::string server = "the server";
  /// All headers that are sent, but for Host, Accept, User-Agent and Content-Length.
  HttpHeaders headers = {};
  std::string body = {};
  /// The most bytes of the body of a response with status 2xx; a longer one is an error. Bodies of
  /// other responses end without an error after 64 KiB.
  std::size_t max_body_bytes = std::size_t{64} << 20;
  /// Whether proxies of the environment are used. Endpoints that hand out credentials are asked
  /// without them.
  bool use_proxy = true;
  /// Whether redirects are followed, as HttpClient says. If not, they are responses as others are:
  /// a signature holds for one address alone.
  bool follow_redirects = true;
  /// Receives what had arrived of a response with status 2xx whose body broke off or is over the
  /// limit, before the error is reported. Returns whether another attempt can end otherwise: if
  /// not, the error is no kUnavailable. Called on the client's thread, where it must not block.
  /// Empty: what had arrived is lost.
  std::function<bool(HttpResponse)> on_broken = {};
  /// Called before the error is reported if the host of `url` has no address, or nothing listens
  /// there. Called as on_broken is.
  std::function<void()> on_unreachable = {};
};

}  // namespace isocost
