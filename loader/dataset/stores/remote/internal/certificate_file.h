#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace isocost {

/// The file of certificates that servers' are checked against.
struct CertificateFile {
  std::string path;     ///< Empty: there is none, so that no server is trusted.
  std::string sources;  ///< The places that were looked at, for messages.
};

/// Returns a variable of the environment; empty: it is not set.
using Environment = std::function<std::string(const char* name)>;

/// Finds the file: `option`, else that of SSL_CERT_FILE, else of AWS_CA_BUNDLE, else the system's
/// (Debian's path, then Red Hat's). Errors: kNotFound for a file that the option or a variable
/// names and that is not there, kIo for one that cannot be read.
Result<CertificateFile> find_certificate_file(const std::string& option,
                                              const Environment& environment);

}  // namespace isocost
