#include "loader/dataset/stores/remote/internal/certificate_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>

#include "base/file_descriptor.h"

namespace isocost {
namespace {

constexpr const char* kDebian = "/etc/ssl/certs/ca-certificates.crt";
constexpr const char* kRedHat = "/etc/pki/tls/certs/ca-bundle.crt";
constexpr std::array kVariables{"SSL_CERT_FILE", "AWS_CA_BUNDLE"};

// Opens the file for reading, since a mode alone does not tell whether it can be.
Status check_readable(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return last_file_error(path, "read certificates");
  return {};
}

}  // namespace

Result<CertificateFile> find_certificate_file(const std::string& option,
                                              const Environment& environment) {
  if (!option.empty()) {
    ISOCOST_TRY_CONTEXT(check_readable(option), "ca_file");
    return CertificateFile{option, fmt::format("{} (ca_file)", option)};
  }
  std::string sources;
  for (const char* variable : kVariables) {
    const std::string path = environment(variable);
    if (!path.empty()) {
      ISOCOST_TRY_CONTEXT(check_readable(path), variable);
      return CertificateFile{path, fmt::format("{} ({})", path, variable)};
    }
    sources += fmt::format("{} (not set), ", variable);
  }
  for (const char* path : {kDebian, kRedHat}) {
    if (check_readable(path)) return CertificateFile{path, sources + path};
    sources += fmt::format("{} (not there){}", path, path == kDebian ? ", " : "");
  }
  return CertificateFile{"", sources};
}

}  // namespace isocost
