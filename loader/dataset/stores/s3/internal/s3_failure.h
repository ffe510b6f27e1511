#pragma once

#include <chrono>
#include <string>

#include "base/result.h"
#include "loader/dataset/stores/remote/http_message.h"

namespace isocost {

/// A request whose response is to be explained.
struct S3Asked {
  std::string name;      ///< The object's address, for messages.
  std::string bucket;    ///< Its name.
  std::string endpoint;  ///< S3Endpoint::name.
  std::string region;
  std::string credentials;  ///< Their source; empty: the request was not signed.
  bool lists = false;       ///< Whether it asked for a listing, and not for an object.
  std::chrono::sys_seconds now;
};

/// Whether a request that was refused is to be sent once more.
enum class S3Remedy {
  kNone,
  kOtherRegion,     ///< In the region that S3Failure names.
  kNewCredentials,  ///< With credentials that are fetched anew.
  kAgain,           ///< Unchanged.
};

struct S3Failure {
  S3Remedy remedy = S3Remedy::kNone;
  std::string region = {};
  Error error;
};

/// Explains a response that is no success: which error it is, and what mends it. That to HEAD has
/// no body, so that its error is not to be told. Errors: kNotFound (the object does not exist, as a
/// document of S3 says), kUnavailable (the server asks to wait, or cannot answer), kIo (all others,
/// such as a response without a document, which no server of S3 gives).
S3Failure explain_failure(const S3Asked& asked, const HttpResponse& response);

}  // namespace isocost
