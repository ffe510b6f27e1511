#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isocost {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// One request to an HTTP server.
struct HttpRequest {
  std::string method = "GET";
  /// The address with its query. It may carry a secret, so that no message shows it.
  std::string url;
  /// What messages call the request's object: an address without query and user.
  std::string name;
  HttpHeaders headers = {};
  std::string body = {};
  /// The most bytes of a response's body; a longer one is an error.
  std::size_t max_body_bytes = std::size_t{64} << 20;
  /// Whether proxies of the environment are used. Endpoints that hand out credentials are asked
  /// without them.
  bool use_proxy = true;
};

/// The response of a server, whatever its status.
struct HttpResponse {
  int status = 0;
  HttpHeaders headers;  ///< Names in lower case, in the order of the response.
  std::string body;

  /// Returns the first value of a header, whose name is in lower case; empty: there is none.
  std::string_view header(std::string_view lower_case_name) const;
};

}  // namespace isocost
