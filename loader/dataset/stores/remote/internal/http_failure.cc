#include "loader/dataset/stores/remote/internal/http_failure.h"

#include <fmt/format.h>

namespace isocost {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Error untrusted(std::string_view name, const std::string& text, std::string_view sources) {
  if (contains(text, "expired") || contains(text, "not yet valid")) {
    return {ErrorCode::kIo, fmt::format("{}: the server's certificate is not valid now: {}; check "
                                        "this machine's clock, or renew the certificate",
                                        name, text)};
  }
  if (contains(text, "subject name")) {
    return {ErrorCode::kIo,
            fmt::format("{}: the server's certificate is another host's: {}", name, text)};
  }
  return {ErrorCode::kIo,
          fmt::format("{}: the server cannot be trusted: {}; certificates were looked for in {}. "
                      "If its authority is another, set ca_file or SSL_CERT_FILE to a file that "
                      "has the authority's certificate",
                      name, text, sources)};
}

Error handshake_failed(std::string_view name, const std::string& text, std::string_view sources) {
  return {ErrorCode::kIo,
          fmt::format("{}: the TLS handshake failed: {}; check that the address's port is one of "
                      "HTTPS. Certificates were looked for in {}; ca_file or SSL_CERT_FILE names "
                      "another file",
                      name, text, sources)};
}

// A connection that breaks off within the handshake has the code of a failed handshake. libcurl
// gives no error of TLS for it, but that of the socket.
bool broke_off_in_handshake(const CurlFailure& failure) {
  return failure.code == CURLE_SSL_CONNECT_ERROR &&
         (contains(failure.text, "SSL_ERROR_SYSCALL") ||
          contains(failure.text, "Connection reset") || contains(failure.text, "Broken pipe"));
}

Error unavailable(std::string_view name, std::string_view what, const std::string& text) {
  return {ErrorCode::kUnavailable, fmt::format("{}: {}: {}", name, what, text)};
}

Error refused_by_proxy(int status, std::string_view name) {
  const bool passes = status == 429 || status == 502 || status == 503 || status == 504;
  return {
      passes ? ErrorCode::kUnavailable : ErrorCode::kIo,
      fmt::format("{}: the proxy refuses to connect to the server (status {}); {}", name, status,
                  status == 407 ? "set HTTPS_PROXY to http://USER:PASSWORD@PROXY:PORT"
                                : "check HTTPS_PROXY, or name hosts without a proxy in NO_PROXY")};
}

Error no_connection(const CurlFailure& failure, std::string_view name, const std::string& text) {
  return unavailable(name, "no connection to " + failure.server, text);
}

Error timed_out(const CurlFailure& failure, std::string_view name, long stall_s) {
  if (!failure.connected) return no_connection(failure, name, failure.text);
  return {ErrorCode::kUnavailable,
          fmt::format("{}: the transfer stalled: less than 1,000 bytes a second came for {} s",
                      name, stall_s)};
}

}  // namespace

bool is_unreachable(const CurlFailure& failure) {
  return failure.proxy_status == 0 &&
         (failure.code == CURLE_COULDNT_RESOLVE_HOST ||
          failure.code == CURLE_COULDNT_RESOLVE_PROXY || failure.code == CURLE_COULDNT_CONNECT);
}

Error http_failure(const CurlFailure& failure, std::string_view name,
                   std::string_view certificate_sources, long stall_s) {
  const std::string text =
      failure.text.empty() ? std::string(curl_easy_strerror(failure.code)) : failure.text;
  if (failure.proxy_status != 0 && failure.proxy_status / 100 != 2) {
    return refused_by_proxy(failure.proxy_status, name);
  }
  if (broke_off_in_handshake(failure)) {
    return unavailable(name, "the connection broke off", text);
  }
  switch (failure.code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
      return unavailable(name, "the proxy's name is not known now", text + "; check HTTPS_PROXY");
    case CURLE_COULDNT_RESOLVE_HOST:
      return unavailable(name, "the name of " + failure.server + " is not known now",
                         text + "; check the host in the address");
    case CURLE_COULDNT_CONNECT:
      return no_connection(failure, name,
                           text + "; check the address, and whether the server runs");
    case CURLE_OPERATION_TIMEDOUT:
      return timed_out(failure, name, stall_s);
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
      return unavailable(name, "the connection broke off", text);
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
      return untrusted(name, text, certificate_sources);
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_INVALIDCERTSTATUS:
      return handshake_failed(name, text, certificate_sources);
    case CURLE_OUT_OF_MEMORY:
      return {ErrorCode::kOutOfMemory, fmt::format("{}: no memory for the transfer", name)};
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
      return {ErrorCode::kIo,
              fmt::format("{}: the server does not answer in HTTP: {}; check the address and its "
                          "port",
                          name, text)};
    default:
      return {ErrorCode::kIo, fmt::format("{}: {}", name, text)};
  }
}

}  // namespace isocost
