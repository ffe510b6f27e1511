#pragma once

#include <curl/curl.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "loader/dataset/stores/remote/http_message.h"
#include "loader/dataset/stores/remote/internal/certificate_file.h"
#include "loader/dataset/stores/remote/internal/http_address.h"

namespace isocost {

struct TransferSettings {
  CertificateFile certificates;
  long connect_timeout_ms = 0;
  long stall_s = 0;
};

/// One request over one handle of libcurl, through its redirects, up to its response. libcurl calls
/// back into it, so that it does not move. Single-thread.
class CurlTransfer {
 public:
  /// `settings` must outlive the transfer.
  CurlTransfer(HttpRequest request, const TransferSettings& settings);
  CurlTransfer(const CurlTransfer&) = delete;
  CurlTransfer& operator=(const CurlTransfer&) = delete;

  CURL* handle() const { return handle_.get(); }

  /// Prepares the handle for the request. Errors: kInvalidArgument (the address, a header),
  /// kOutOfMemory.
  Status prepare();

  /// Takes what libcurl says of the end of a transfer. Returns the outcome; nothing: the handle was
  /// prepared for the address that a redirect gave, and must be sent again.
  std::optional<Result<HttpResponse>> ended(CURLcode code);

 private:
  struct EasyDeleter {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  };
  struct ListDeleter {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  using HeaderList = std::unique_ptr<curl_slist, ListDeleter>;

  // Why reading a response was ended before its end.
  enum class Stopped { kNot, kBodyOverLimit, kHeadersOverLimit, kBodyNotWanted };

  static std::size_t on_header(const char* bytes, std::size_t size, std::size_t count, void* self);
  static std::size_t on_body(const char* bytes, std::size_t size, std::size_t count, void* self);
  void start_response();
  bool take_header(std::string_view line);
  bool take_body(std::string_view bytes);
  bool start_body(std::size_t limit);

  Result<HeaderList> header_list() const;
  Status set_options();
  void set_method();
  void set_proxy();

  bool is_redirect() const;
  Status follow();
  Error error_of(CURLcode code);
  std::string shown_name() const;

  HttpRequest request_;
  const TransferSettings& settings_;
  std::unique_ptr<CURL, EasyDeleter> handle_;
  HeaderList headers_;
  std::array<char, CURL_ERROR_SIZE> text_{};
  HttpAddress address_;
  int redirects_ = 0;

  HttpResponse response_;
  std::size_t header_bytes_ = 0;
  bool headers_complete_ = false;
  Stopped stopped_ = Stopped::kNot;
};

}  // namespace isocost
