#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "loader/dataset/stores/s3/aws_environment.h"
#include "loader/dataset/stores/s3/internal/ini_file.h"

namespace isocost {

/// One profile in the files that AWS's tools share.
struct SharedProfile {
  std::string name;
  IniSection credentials;  ///< In ~/.aws/credentials, or AWS_SHARED_CREDENTIALS_FILE.
  IniSection config;       ///< In ~/.aws/config, or AWS_CONFIG_FILE.
  IniSection services;     ///< The section of the config file that the profile's `services` names.
  std::filesystem::path credentials_file;  ///< Empty: there is none, as for the next.
  std::filesystem::path config_file;

  /// Returns a value of either file, the credentials' first; empty: neither has it.
  std::string_view get(std::string_view key) const;
};

/// Reads the profile that `profile` names, else AWS_PROFILE, else "default". Files that are absent
/// count as empty. Errors: kInvalidArgument for a file that cannot be read or parsed, for a profile
/// that was named and is in neither, and for services that it names and that are not there.
Result<SharedProfile> read_shared_profile(const AwsEnvironment& environment,
                                          std::string_view profile = {});

}  // namespace isocost
