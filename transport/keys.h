#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace isocost {

/// A CURVE key pair, each half 40 characters of Z85 (https://rfc.zeromq.org/spec/32/).
struct KeyPair {
  std::string public_key;
  std::string secret_key;
};

/// A fresh pair. Errors: kUnsupported where libzmq was built without CURVE.
Result<KeyPair> generate_keys();

/// Writes NAME.secret (both halves, mode 0600) and NAME.public. Errors: kAlreadyExists where one is
/// there already, kInvalidArgument for a directory's name, kIo.
Status write_keys(const KeyPair& keys, const std::filesystem::path& name);

/// Reads what write_keys wrote. Errors: kInvalidArgument naming the file, kIo.
Result<KeyPair> read_secret_key(const std::filesystem::path& file);
Result<std::string> read_public_key(const std::filesystem::path& file);

/// Public keys, one a line; with or without "public " before it; blank lines and lines that
/// start with "# " are skipped.
Result<std::vector<std::string>> read_allowed_keys(const std::filesystem::path& file);

}  // namespace isocost
