#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// An address of HTTP or HTTPS in its parts, as they stand in it: encoded, but for user and
/// password.
struct HttpAddress {
  std::string scheme;  ///< "http" or "https".
  std::string host;    ///< In lower case; an IPv6 address with its brackets.
  std::string port;    ///< In digits, also where the address has none.
  std::string path;    ///< Begins with '/'. Dots in it are kept.
  std::string query;   ///< Without '?'.
  std::string user;
  std::string password;

  /// Returns "https://host:8443": who receives what is sent there. The scheme's own port is left
  /// out.
  std::string origin() const;
  /// Returns the address without user and password: what a request is sent to.
  std::string url() const;
  /// Returns the address without user, password and query: what messages show.
  std::string shown() const { return origin() + path; }
};

/// Reads an address. Errors: kInvalidArgument with what is wrong, without a text of the address,
/// which may have secrets.
Result<HttpAddress> parse_http_address(const std::string& url);

/// Reads a redirect's Location, which may be relative to the address that answered with it.
/// Errors: kInvalidArgument, as above.
Result<HttpAddress> follow_location(const HttpAddress& from, std::string_view location);

/// Returns a path with each byte encoded that is no unreserved character of RFC 3986 and no '/'.
std::string encode_path(std::string_view path);

}  // namespace isocost
