#include "loader/dataset/stores/remote/internal/http_address.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>

namespace isocost {
namespace {

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, UrlDeleter>;

std::string part(CURLU* url, CURLUPart which, unsigned int flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, flags) != CURLUE_OK) return "";
  std::string copy(text);
  curl_free(text);
  return copy;
}

Error no_address(const char* reason) {
  return {ErrorCode::kInvalidArgument,
          std::string("is no address of an HTTP server (") + reason +
              "): write http:// or https://, the host and the path, and encode spaces as %20"};
}

Result<HttpAddress> parts_of(CURLU* url) {
  HttpAddress address;
  address.scheme = part(url, CURLUPART_SCHEME);
  if (address.scheme != "http" && address.scheme != "https") {
    return no_address("its scheme is another");
  }
  address.host = part(url, CURLUPART_HOST);
  std::transform(address.host.begin(), address.host.end(), address.host.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (address.host.empty()) return no_address("it has no host");
  address.port = part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  address.path = part(url, CURLUPART_PATH);
  address.query = part(url, CURLUPART_QUERY);
  address.user = part(url, CURLUPART_USER, CURLU_URLDECODE);
  address.password = part(url, CURLUPART_PASSWORD, CURLU_URLDECODE);
  return address;
}

}  // namespace

std::string HttpAddress::origin() const {
  const bool own_port = port == (scheme == "https" ? "443" : "80");
  return scheme + "://" + host + (own_port ? "" : ":" + port);
}

std::string HttpAddress::url() const { return shown() + (query.empty() ? "" : "?" + query); }

Result<HttpAddress> parse_http_address(const std::string& url) {
  const Url parsed(curl_url());
  if (!parsed) return Error(ErrorCode::kOutOfMemory, "no memory for an address");
  // libcurl takes one slash or three for two, and so a part of the path for the host.
  const std::size_t slashes = url.find("://");
  if (slashes == std::string::npos || url.substr(slashes + 3).starts_with('/')) {
    return no_address("it has no host");
  }
  // A NUL would end the address early.
  if (url.find('\0') != std::string::npos) return no_address("it has a NUL");
  const CURLUcode code = curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(),
                                      CURLU_NON_SUPPORT_SCHEME | CURLU_PATH_AS_IS);
  if (code != CURLUE_OK) return no_address(curl_url_strerror(code));
  return parts_of(parsed.get());
}

Result<HttpAddress> follow_location(const HttpAddress& from, std::string_view location) {
  const Url parsed(curl_url());
  if (!parsed) return Error(ErrorCode::kOutOfMemory, "no memory for an address");
  const std::string text(location);
  CURLUcode code = curl_url_set(parsed.get(), CURLUPART_URL, from.url().c_str(), CURLU_PATH_AS_IS);
  if (code == CURLUE_OK) {
    code = curl_url_set(parsed.get(), CURLUPART_URL, text.c_str(),
                        CURLU_NON_SUPPORT_SCHEME | CURLU_URLENCODE);
  }
  if (code != CURLUE_OK) return no_address(curl_url_strerror(code));
  return parts_of(parsed.get());
}

std::string encode_path(std::string_view path) {
  constexpr std::string_view kKept =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : path) {
    if (kKept.find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kHex[byte >> 4U], kHex[byte & 15U]};
    }
  }
  return encoded;
}

}  // namespace isocost
