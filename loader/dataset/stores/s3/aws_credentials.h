#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace isocost {

/// What signs requests to AWS and to stores with its interface. Nothing prints it: all of it but
/// the time is secret.
struct AwsCredentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token = {};  ///< Empty: keys that do not expire.
  std::optional<std::chrono::sys_seconds> expires = std::nullopt;
  bool operator==(const AwsCredentials&) const = default;
};

}  // namespace isocost
