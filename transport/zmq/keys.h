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

/// Returns a fresh pair. Errors: kUnsupported if libzmq was built without CURVE.
Result<KeyPair> generate_keys();

/// Writes NAME.secret (both keys, mode 0600) and NAME.public. Errors: kAlreadyExists if one of them
/// exists, kInvalidArgument for a directory's name, kIo.
Status write_keys(const KeyPair& keys, const std::filesystem::path& name);

/// Reads a file that write_keys wrote. Errors: kInvalidArgument with the file's name.
Result<KeyPair> read_secret_key(const std::filesystem::path& file);
Result<std::string> read_public_key(const std::filesystem::path& file);

/// Reads a list of public keys, one per line, with or without "public " before it. Blank lines and
/// lines that start with "# " are skipped. Errors: kInvalidArgument with the file's name.
Result<std::vector<std::string>> read_allowed_keys(const std::filesystem::path& file);

}  // namespace isocost
