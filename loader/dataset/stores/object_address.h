#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// The address of an object, or of several by a pattern, in parts: "s3://bucket/key" or
/// "https://user:password@host/path?query". Value type.
struct ObjectAddress {
  std::string scheme;      ///< "s3", "http" or "https".
  std::string user = {};   ///< User and password, a secret; empty: none.
  std::string host;        ///< The bucket, or host and port.
  std::string path;        ///< The key, or the path without its first '/', as it was given.
  std::string query = {};  ///< Without '?', maybe a secret; empty: none. S3 has none.

  /// Returns whether a text begins as an address that Isocost reads.
  static bool is_one(std::string_view text);
  /// Takes a text apart. Errors: kInvalidArgument (no host, a control character, user and password
  /// of S3, a '#' in an address of HTTP).
  static Result<ObjectAddress> parse(std::string_view text);

  bool is_s3() const { return scheme == "s3"; }
  /// Returns the address without its secrets, for messages, and as identity.
  std::string name() const;
};

/// Returns a text with %XX as the bytes that they stand for. Errors: kInvalidArgument ("%2F", which
/// would be another path, and a '%' that begins no byte).
Result<std::string> decoded_path(std::string_view text);

/// Returns whether a host without user has a port that is no number: a password with a '/' or '?'
/// begins so.
bool has_port_that_is_none(std::string_view host);

}  // namespace isocost
