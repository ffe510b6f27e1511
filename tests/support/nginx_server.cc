#include "tests/support/nginx_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/file_descriptor.h"

namespace isocost {
namespace {

constexpr int kMostTries = 2000;  // 20 s

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

sockaddr* generic(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

int free_port() {
  const FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  if (::bind(fd.get(), generic(address), size) != 0) return 0;
  if (::getsockname(fd.get(), generic(address), &size) != 0) return 0;
  return ntohs(address.sin_port);
}

bool answers(int port) {
  const FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(port);
  return ::connect(fd.get(), generic(address), sizeof(address)) == 0;
}

Status make_certificate(const std::filesystem::path& scratch) {
  const std::filesystem::path output = scratch / "openssl.output";
  ISOCOST_ASSIGN(
      ChildProcess openssl,
      ChildProcess::start(
          {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
           "-nodes", "-days", "2", "-subj", "/CN=isocost test", "-addext",
           "subjectAltName=IP:127.0.0.1", "-keyout", (scratch / "key.pem").string(), "-out",
           (scratch / "certificate.pem").string()},
          output));
  if (openssl.wait() != 0) {
    return Error(ErrorCode::kIo, "openssl makes no certificate: see " + output.string());
  }
  return {};
}

void write_configuration(const std::filesystem::path& file, const std::filesystem::path& directory,
                         const std::filesystem::path& scratch, int port, int tls_port,
                         const std::string& more) {
  std::ofstream to(file);
  const std::string at = scratch.string();
  // A single process, which this program can end.
  to << "daemon off;\nmaster_process off;\npid " << at << "/pid;\nerror_log " << at
     << "/error.log;\nevents { worker_connections 512; }\nhttp {\n  access_log " << at
     << "/access.log;\n  default_type application/octet-stream;\n";
  for (const char* kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}) {
    to << "  " << kind << "_temp_path " << at << "/" << kind << ";\n";
  }
  to << "  root " << directory.string() << ";\n  server { listen 127.0.0.1:" << port << ";\n"
     << more << "\n}\n  server { listen 127.0.0.1:" << tls_port << " ssl;\n  ssl_certificate " << at
     << "/certificate.pem;\n  ssl_certificate_key " << at << "/key.pem;\n"
     << more << "\n  }\n}\n";
}

}  // namespace

Result<NginxServer> NginxServer::start(const std::filesystem::path& directory,
                                       const std::filesystem::path& scratch,
                                       const std::string& more) {
  ISOCOST_TRY(make_certificate(scratch));
  const std::filesystem::path configuration = scratch / "nginx.conf";
  // Another program may take a port before nginx does.
  for (int attempt = 0; attempt < 5; ++attempt) {
    const int port = free_port();
    const int tls_port = free_port();
    write_configuration(configuration, directory, scratch, port, tls_port, more);
    ISOCOST_ASSIGN(ChildProcess process,
                   ChildProcess::start({"nginx", "-c", configuration.string(), "-p",
                                        scratch.string(), "-e", (scratch / "error.log").string()},
                                       scratch / "nginx.output"));
    for (int tries = 0; tries < kMostTries && process.runs(); ++tries) {
      if (answers(port) && answers(tls_port)) {
        return NginxServer(std::move(process), scratch, port, tls_port);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  return Error(ErrorCode::kIo, "nginx does not start: see " + (scratch / "error.log").string());
}

}  // namespace isocost
