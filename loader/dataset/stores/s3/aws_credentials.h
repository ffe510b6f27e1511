#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace isocost {

/// Keys that sign requests to AWS and to stores with its interface. Nothing prints them: all but
/// the time is secret.
struct AwsCredentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token = {};  ///< Empty: keys that do not expire.
  std::optional<std::chrono::sys_seconds> expires = std::nullopt;
  bool operator==(const AwsCredentials&) const = default;
};

}  // namespace isocost
