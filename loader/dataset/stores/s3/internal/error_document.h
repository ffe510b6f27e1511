#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace isocost {

/// A service's words in the body of a response that is no success.
struct ErrorDocument {
  std::string code;        ///< For example "NoSuchKey".
  std::string message;     ///< A sentence, in printable UTF-8; cut where it is long.
  std::string region;      ///< The right one, where another was used; mostly empty.
  std::string request_id;  ///< The service's support asks for it.
};

/// Parses the body of an error of S3 or STS. Nothing: it is another document, such as a page of a
/// proxy.
std::optional<ErrorDocument> parse_error_document(std::string_view body);

}  // namespace isocost
