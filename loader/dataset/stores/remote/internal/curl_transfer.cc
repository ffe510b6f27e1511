#include "loader/dataset/stores/remote/internal/curl_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/base64.h"
#include "loader/dataset/stores/remote/internal/http_failure.h"

namespace isocost {
namespace {

constexpr int kMostRedirects = 5;
constexpr std::size_t kMostHeaderBytes = std::size_t{256} << 10;
constexpr std::size_t kMostErrorBytes = std::size_t{64} << 10;
constexpr long kLeastBytesPerSecond = 1000;
constexpr long kReceiveBuffer = 128L << 10;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower;
}

std::string_view without_ends(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

bool is_success(int status) { return status >= 200 && status < 300; }

// Whether a header says only which bytes are wanted, and in which form. A header that is not known
// may hold a secret.
bool is_for_any_origin(std::string_view name) {
  const std::string lower = lower_case(name);
  return lower == "range" || lower.starts_with("if-") || lower.starts_with("accept") ||
         lower == "user-agent" || lower == "cache-control";
}

bool has_header(const HttpHeaders& headers, std::string_view lower_case_name) {
  return std::any_of(headers.begin(), headers.end(), [&](const auto& header) {
    return lower_case(header.first) == lower_case_name;
  });
}

bool is_header_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

}  // namespace

CurlTransfer::CurlTransfer(HttpRequest request, const TransferSettings& settings)
    : request_(std::move(request)), settings_(settings), handle_(curl_easy_init()) {}

std::string CurlTransfer::shown_name() const {
  if (redirects_ == 0) return request_.name;
  return fmt::format("{} (redirected to {})", request_.name, address_.origin());
}

Status CurlTransfer::prepare() {
  if (!handle_) return Error(ErrorCode::kOutOfMemory, "no memory for a transfer");
  auto address = parse_http_address(request_.url);
  if (!address) {
    return std::move(address).error().with_context(
        request_.name.empty() ? "the address of a request" : request_.name);
  }
  address_ = *std::move(address);
  if (request_.name.empty()) request_.name = address_.shown();
  if (!(address_.user.empty() && address_.password.empty()) &&
      !has_header(request_.headers, "authorization")) {
    request_.headers.emplace_back(
        "Authorization", "Basic " + encode_base64(address_.user + ":" + address_.password));
  }
  return set_options();
}

Result<CurlTransfer::HeaderList> CurlTransfer::header_list() const {
  HeaderList list;
  const auto append = [&list](const std::string& line) {
    curl_slist* longer = curl_slist_append(list.get(), line.c_str());
    if (longer == nullptr) return false;
    // The old list is the head of the longer one, or was none.
    [[maybe_unused]] const curl_slist* head = list.release();
    list.reset(longer);
    return true;
  };
  // libcurl would ask before it sends a long body, and would name a form as the body's type.
  bool complete = append("Expect:");
  if (!has_header(request_.headers, "content-type")) complete = append("Content-Type:") && complete;
  for (const auto& [name, value] : request_.headers) {
    if (!is_header_name(name) ||
        value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("{}: a header cannot be sent: its name is no token, or its value "
                               "has a line break",
                               request_.name));
    }
    // libcurl sends a header without a value only if it ends with a semicolon.
    complete = append(value.empty() ? name + ";" : fmt::format("{}: {}", name, value)) && complete;
  }
  if (!complete) return Error(ErrorCode::kOutOfMemory, "no memory for the headers of a request");
  return list;
}

Status CurlTransfer::set_options() {
  ISOCOST_ASSIGN(headers_, header_list());
  CURL* easy = handle_.get();
  curl_easy_reset(easy);
  text_.fill('\0');
  curl_easy_setopt(easy, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, text_.data());
  curl_easy_setopt(easy, CURLOPT_URL, address_.url().c_str());
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_.get());
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "isocost");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);  // See `follow`.
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, settings_.connect_timeout_ms);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, kLeastBytesPerSecond);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, settings_.stall_s);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kReceiveBuffer);
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  // Certificates come from one file, which messages name, and not from where libcurl was built to
  // look.
  const std::string& file = settings_.certificates.path;
  curl_easy_setopt(easy, CURLOPT_CAINFO, file.empty() ? nullptr : file.c_str());
  curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set_method();
  set_proxy();
  return {};
}

void CurlTransfer::set_method() {
  CURL* easy = handle_.get();
  if (request_.method == "HEAD") {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  } else if (request_.method != "GET") {
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request_.body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request_.body.size()));
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  }
}

void CurlTransfer::set_proxy() {
  CURL* easy = handle_.get();
  if (!request_.use_proxy) {
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    return;
  }
  const std::string& file = settings_.certificates.path;
  curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO, file.empty() ? nullptr : file.c_str());
  curl_easy_setopt(easy, CURLOPT_PROXY_CAPATH, nullptr);
}

std::size_t CurlTransfer::on_header(const char* bytes, std::size_t size, std::size_t count,
                                    void* self) {
  const std::string_view line(bytes, size * count);
  return static_cast<CurlTransfer*>(self)->take_header(line) ? line.size() : 0;
}

std::size_t CurlTransfer::on_body(const char* bytes, std::size_t size, std::size_t count,
                                  void* self) {
  const std::string_view part(bytes, size * count);
  return static_cast<CurlTransfer*>(self)->take_body(part) ? part.size() : 0;
}

void CurlTransfer::start_response() {
  response_ = {};
  header_bytes_ = 0;
  headers_complete_ = false;
  stopped_ = Stopped::kNot;
}

bool CurlTransfer::take_header(std::string_view line) {
  if (line.starts_with("HTTP/")) {
    // Another response, such as that after "100 Continue".
    start_response();
    return true;
  }
  header_bytes_ += line.size();
  if (header_bytes_ > kMostHeaderBytes) {
    stopped_ = Stopped::kHeadersOverLimit;
    return false;
  }
  headers_complete_ = headers_complete_ || without_ends(line).empty();
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return true;
  response_.headers.emplace_back(lower_case(without_ends(line.substr(0, colon))),
                                 without_ends(line.substr(colon + 1)));
  return true;
}

// Looks at the length that the server announces, so that a body over the limit is not transferred
// up to the limit, and grows once.
bool CurlTransfer::start_body(std::size_t limit) {
  curl_off_t announced = -1;
  curl_easy_getinfo(handle_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
  if (announced < 0) return true;
  const auto bytes = static_cast<std::uint64_t>(announced);
  if (bytes > limit && is_success(response_.status)) {
    stopped_ = Stopped::kBodyOverLimit;
    return false;
  }
  response_.body.reserve(std::min<std::uint64_t>(bytes, limit));
  return true;
}

bool CurlTransfer::take_body(std::string_view bytes) {
  if (response_.status == 0) {
    long status = 0;
    curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
    response_.status = static_cast<int>(status);
  }
  const bool success = is_success(response_.status);
  const std::size_t limit = success ? request_.max_body_bytes : kMostErrorBytes;
  if (response_.body.empty() && !start_body(limit)) return false;
  const std::size_t room = limit - response_.body.size();
  response_.body.append(bytes.substr(0, room));
  if (bytes.size() <= room) return true;
  stopped_ = success ? Stopped::kBodyOverLimit : Stopped::kBodyNotWanted;
  return false;
}

bool CurlTransfer::is_redirect() const {
  const int status = response_.status;
  const bool named =
      status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
  const bool again = request_.method == "GET" || request_.method == "HEAD";
  return request_.follow_redirects && named && again && !response_.header("location").empty();
}

// libcurl itself would send all headers but Authorization and Cookie to another host.
Status CurlTransfer::follow() {
  auto next = follow_location(address_, response_.header("location"));
  if (!next) {
    return Error(ErrorCode::kIo, fmt::format("{}: the server redirects to what {}", shown_name(),
                                             next.error().message()));
  }
  if (address_.scheme == "https" && next->scheme == "http") {
    return Error(ErrorCode::kIo, fmt::format("{}: the server redirects from HTTPS to HTTP, to {}; "
                                             "this is not followed",
                                             shown_name(), next->origin()));
  }
  if (redirects_ == kMostRedirects) {
    return Error(ErrorCode::kIo, fmt::format("{}: the server redirects more than {} times",
                                             shown_name(), kMostRedirects));
  }
  ++redirects_;
  if (next->origin() != address_.origin()) {
    std::erase_if(request_.headers,
                  [](const auto& header) { return !is_for_any_origin(header.first); });
  }
  address_ = *std::move(next);
  return set_options();
}

Error CurlTransfer::error_of(CURLcode code) {
  if (stopped_ == Stopped::kBodyOverLimit) {
    return {ErrorCode::kResourceExhausted,
            fmt::format("{}: the response's body is longer than {} bytes", shown_name(),
                        request_.max_body_bytes)};
  }
  if (stopped_ == Stopped::kHeadersOverLimit) {
    return {ErrorCode::kResourceExhausted,
            fmt::format("{}: the response's headers are longer than {} bytes", shown_name(),
                        kMostHeaderBytes)};
  }
  curl_off_t sent_us = 0;
  curl_easy_getinfo(handle_.get(), CURLINFO_PRETRANSFER_TIME_T, &sent_us);
  long proxy_status = 0;
  curl_easy_getinfo(handle_.get(), CURLINFO_HTTP_CONNECTCODE, &proxy_status);
  CurlFailure failure{.code = code,
                      .text = text_.data(),
                      .connected = sent_us > 0,
                      .proxy_status = static_cast<int>(proxy_status)};
  if (redirects_ == 0) {
    failure.server = request_.server;
    if (request_.on_unreachable && is_unreachable(failure)) request_.on_unreachable();
  }
  return http_failure(failure, shown_name(), settings_.certificates.sources, settings_.stall_s);
}

std::optional<Result<HttpResponse>> CurlTransfer::ended(CURLcode code) {
  long status = 0;
  curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
  response_.status = static_cast<int>(status);
  if (code != CURLE_OK && stopped_ != Stopped::kBodyNotWanted) {
    Error error = error_of(code);
    if (request_.on_broken && headers_complete_ && is_success(response_.status) &&
        !request_.on_broken(std::move(response_))) {
      // The bytes received say that no other attempt can end otherwise.
      return Error(error.code() == ErrorCode::kUnavailable ? ErrorCode::kIo : error.code(),
                   error.message());
    }
    return error;
  }
  if (!is_redirect()) return std::move(response_);
  if (const Status followed = follow(); !followed) return followed.error();
  start_response();
  return std::nullopt;
}

}  // namespace isocost
