#pragma once

#include <chrono>
#include <string>

#include "base/result.h"
#include "loader/dataset/stores/remote/http_message.h"

namespace isocost {

/// A request whose response is to be explained.
struct S3Asked {
  std::string name;    ///< The object's address, for messages.
  std::string bucket;  ///< Its name.
  std::string endpoint;
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

/// Explains a response that is no success, with its status alone where it has no body, as after
/// HEAD: which error it is, and what mends it. Errors: kNotFound (the object does not exist),
/// kUnavailable (the server asks to wait, or cannot answer), kIo (all others).
S3Failure explain_failure(const S3Asked& asked, const HttpResponse& response);

}  // namespace isocost
