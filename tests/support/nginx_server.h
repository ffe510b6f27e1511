#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "tests/support/child_process.h"

namespace isocost {

/// Runs nginx over a directory of files, on two ports of the loopback interface: one with TLS,
/// whose certificate this object makes and signs itself. Needs the programs nginx and openssl.
class NginxServer {
 public:
  static bool installed() { return is_installed("nginx") && is_installed("openssl"); }

  /// Starts the server and waits until it answers. `scratch`, an empty directory, receives all that
  /// it writes. `more`: further lines of the configuration of both ports. Errors: kIo.
  static Result<NginxServer> start(const std::filesystem::path& directory,
                                   const std::filesystem::path& scratch,
                                   const std::string& more = "");

  std::string address() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }
  std::string tls_address() const { return "https://127.0.0.1:" + std::to_string(tls_port_) + "/"; }
  /// Returns the file with the certificate of the TLS port.
  std::filesystem::path certificate() const { return scratch_ / "certificate.pem"; }

 private:
  NginxServer(ChildProcess process, std::filesystem::path scratch, int port, int tls_port)
      : process_(std::move(process)),
        scratch_(std::move(scratch)),
        port_(port),
        tls_port_(tls_port) {}

  ChildProcess process_;
  std::filesystem::path scratch_;
  int port_;
  int tls_port_;
};

}  // namespace isocost
