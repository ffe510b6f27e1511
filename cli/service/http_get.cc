#include "cli/service/http_get.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace isocost::cli {
namespace {

constexpr std::string_view kMetrics = "/metrics";
constexpr int kPollMs = 50;  // time within which a stop is noticed

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct MultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
using Url = std::unique_ptr<CURLU, UrlDeleter>;
using Easy = std::unique_ptr<CURL, EasyDeleter>;
using Multi = std::unique_ptr<CURLM, MultiDeleter>;

struct Body {
  std::string bytes;
  std::size_t limit = 0;
  bool too_long = false;
};

std::size_t on_bytes(const char* bytes, std::size_t size, std::size_t count, void* context) {
  auto& body = *static_cast<Body*>(context);
  if (size * count > body.limit - body.bytes.size()) {
    body.too_long = true;
    return 0;  // ends the transfer
  }
  body.bytes.append(bytes, size * count);
  return size * count;
}

std::string url_part(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return "";
  std::string copy(text);
  curl_free(text);
  return copy;
}

void set_up(CURL* easy, const std::string& url, const HttpLimits& limits, Body& body) {
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(limits.timeout.count()));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &on_bytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
}

// Runs the transfer until it ends or the stop is requested.
Result<CURLcode> transfer(CURLM* multi, const std::stop_token& stop) {
  for (int running = 1; running > 0;) {
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped");
    if (curl_multi_perform(multi, &running) != CURLM_OK ||
        curl_multi_poll(multi, nullptr, 0, running > 0 ? kPollMs : 0, nullptr) != CURLM_OK) {
      return Error(ErrorCode::kIo, "the HTTP client failed");
    }
  }
  int left = 0;
  const CURLMsg* done = curl_multi_info_read(multi, &left);
  return done != nullptr ? done->data.result : CURLE_FAILED_INIT;
}

Error failure(const std::string& url, CURLcode code, const Body& body, const HttpLimits& limits) {
  if (body.too_long) {
    return {ErrorCode::kResourceExhausted,
            url + ": the answer is longer than " + std::to_string(limits.max_bytes) + " bytes"};
  }
  switch (code) {
    case CURLE_COULDNT_CONNECT:
      return {ErrorCode::kUnavailable,
              url +
                  ": nothing listens there. Start the node with isocost serve --metrics 9464; for "
                  "a node elsewhere, open a tunnel: ssh -L 9464:127.0.0.1:9464 HOST"};
    case CURLE_COULDNT_RESOLVE_HOST:
      return {ErrorCode::kUnavailable,
              url +
                  ": no host of this name is known; give HOST:PORT of the node's metrics, or the "
                  "PORT alone on this host"};
    case CURLE_OPERATION_TIMEDOUT:
      return {ErrorCode::kDeadlineExceeded, url + ": no complete answer within " +
                                                std::to_string(limits.timeout.count()) + " ms"};
    default:
      return {ErrorCode::kIo, url + ": " + curl_easy_strerror(code)};
  }
}

}  // namespace

Result<std::string> status_url(const std::string& text) {
  const bool port_alone = !text.empty() && std::all_of(text.begin(), text.end(),
                                                       [](char c) { return c >= '0' && c <= '9'; });
  const std::string completed = port_alone ? "http://127.0.0.1:" + text : text;
  const Url url(curl_url());
  const auto flags = CURLU_DEFAULT_SCHEME | CURLU_NON_SUPPORT_SCHEME;
  const bool parsed =
      curl_url_set(
          url.get(), CURLUPART_URL,
          (completed.find("://") == std::string::npos ? "http://" + completed : completed).c_str(),
          flags) == CURLUE_OK;
  const std::string scheme = parsed ? url_part(url.get(), CURLUPART_SCHEME) : "";
  if (scheme != "http" && scheme != "https") {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + text + "' is not an address of a node's metrics: give http://HOST:PORT");
  }
  std::string path = url_part(url.get(), CURLUPART_PATH);
  if (path == "/") path = kMetrics;
  if (path.ends_with(kMetrics)) {
    path.replace(path.size() - kMetrics.size(), kMetrics.size(), "/status.json");
    curl_url_set(url.get(), CURLUPART_PATH, path.c_str(), 0);
  }
  return url_part(url.get(), CURLUPART_URL);
}

Result<std::string> http_get(const std::string& url, const HttpLimits& limits,
                             const std::stop_token& stop) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  Body body{{}, limits.max_bytes};
  // The transfer is removed from `multi` below, before either handle is freed.
  const Easy easy(curl_easy_init());
  const Multi multi(curl_multi_init());
  if (initialised != CURLE_OK || !easy || !multi) {
    return Error(ErrorCode::kResourceExhausted, "cannot start the HTTP client");
  }
  set_up(easy.get(), url, limits, body);
  curl_multi_add_handle(multi.get(), easy.get());
  const Result<CURLcode> code = transfer(multi.get(), stop);
  curl_multi_remove_handle(multi.get(), easy.get());
  if (!code) return code.error();
  if (*code != CURLE_OK) return failure(url, *code, body, limits);
  long status = 0;
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status != 200) {
    return Error(ErrorCode::kUnsupported, url + " answered with HTTP status " +
                                              std::to_string(status) +
                                              ": no isocost node serves its status there");
  }
  return std::move(body.bytes);
}

}  // namespace isocost::cli
