#include "loader/dataset/stores/remote/http_store.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/base64.h"
#include "loader/dataset/stores/remote/header_values.h"
#include "loader/dataset/stores/remote/internal/http_address.h"
#include "loader/dataset/stores/remote/internal/range_response.h"
#include "loader/dataset/stores/remote/internal/retry_rule.h"
#include "loader/dataset/stores/remote/range_read.h"

namespace isocost {
namespace {

Error refused(const std::string& name, ErrorCode code, std::string_view what, int status) {
  return {code, fmt::format("{}: {} (status {})", name, what, status)};
}

// The address below which a store's objects lie, and how they are asked for.
class HttpRoot {
 public:
  explicit HttpRoot(HttpAddress address);

  HttpAddress address_of(std::string_view key) const;
  HttpRequest request(const HttpAddress& address, HttpHeaders headers) const;
  Error status_error(const std::string& name, const HttpResponse& response) const;

 private:
  const HttpAddress address_;
  HttpHeaders sent_always_;
};

class HttpStore final : public ObjectStore {
 public:
  HttpStore(HttpAddress root, std::shared_ptr<RequestSender> sender)
      : root_(std::make_shared<const HttpRoot>(std::move(root))), sender_(std::move(sender)) {}

  std::string name_of(std::string_view key) const override {
    return root_->address_of(key).shown();
  }
  Result<ObjectStamp> stamp(std::string_view key, const std::stop_token& stop) override;
  Result<std::vector<ListedObject>> list(std::string_view prefix, bool recursive,
                                         const std::stop_token& stop) override;
  void read(std::string_view key, const ObjectStamp& stamp, ByteRange range, std::stop_token stop,
            Done done) override;
  StoreCounts counts() const override { return {.sent = sender_->counts()}; }

 private:
  Result<ObjectStamp> stamp_by_first_byte(const HttpAddress& address, const std::stop_token& stop);

  const std::shared_ptr<const HttpRoot> root_;  // Shared with the reads.
  const std::shared_ptr<RequestSender> sender_;
};

Result<ObjectStamp> stamp_of(const std::string& name, const HttpResponse& response,
                             std::int64_t bytes) {
  ObjectStamp stamp{.bytes = bytes,
                    .etag = std::string(response.header("etag")),
                    .modified_s = parse_http_date(response.header("last-modified")).value_or(0)};
  if (stamp.etag.empty() && stamp.modified_s == 0) {
    return Error(ErrorCode::kIo,
                 fmt::format("{}: the server tells neither an ETag nor Last-Modified, so that a "
                             "replaced object could not be told from this one; serve the data from "
                             "a server that does, such as nginx, or copy it to a disk",
                             name));
  }
  return stamp;
}

// Returns the size that a response to a request for the first byte tells.
Result<std::int64_t> size_by_first_byte(const std::string& name, const HttpResponse& response) {
  const auto given = parse_content_range(response.header("content-range"));
  if (response.status == 416 && given && given->total == 0) return 0;
  if (response.status == 206 && given && given->total) return *given->total;
  if (is_page(response)) return page_error(name);
  const auto length = parse_content_length(response.header("content-length"));
  if (response.status == 200 && length && *length <= 1) return *length;
  return Error(ErrorCode::kIo,
               fmt::format("{}: the server does not tell the object's size: it refuses HEAD, and "
                           "ignores Range (status {}); serve the data from a server that supports "
                           "range requests, such as nginx, or copy it to a disk",
                           name, response.status));
}

HttpRoot::HttpRoot(HttpAddress address) : address_(std::move(address)) {
  // A gateway that compresses on the way would change sizes and ranges.
  sent_always_.emplace_back("Accept-Encoding", "identity");
  if (address_.user.empty() && address_.password.empty()) return;
  sent_always_.emplace_back("Authorization",
                            "Basic " + encode_base64(address_.user + ":" + address_.password));
}

HttpAddress HttpRoot::address_of(std::string_view key) const {
  HttpAddress address = address_;
  if (key.empty()) return address;
  if (!address.path.ends_with('/')) address.path += '/';
  address.path += encode_path(key);
  return address;
}

HttpRequest HttpRoot::request(const HttpAddress& address, HttpHeaders headers) const {
  headers.insert(headers.end(), sent_always_.begin(), sent_always_.end());
  return {.url = address.url(), .name = address.shown(), .headers = std::move(headers)};
}

Error HttpRoot::status_error(const std::string& name, const HttpResponse& response) const {
  const int status = response.status;
  if (status == 404 || status == 410) {
    return refused(name, ErrorCode::kNotFound, "the server has no such object", status);
  }
  if (status == 401 || status == 403) {
    const std::string_view hint =
        address_.query.empty()
            ? "access is denied: some servers say so of an object that is not there; otherwise "
              "give what the server asks for in the address, https://USER:PASSWORD@HOST/"
            : "access is denied: the signature in the address's query may have expired; make the "
              "address anew";
    return refused(name, ErrorCode::kIo, hint, status);
  }
  if (status == 407) {
    return refused(name, ErrorCode::kIo,
                   "the proxy denies access: set HTTPS_PROXY to http://USER:PASSWORD@PROXY:PORT",
                   status);
  }
  if (asks_to_wait(response)) {
    return refused(name, ErrorCode::kUnavailable,
                   "the server asks to send less, for longer than requests are repeated", status);
  }
  if (may_pass(response)) {
    return refused(name, ErrorCode::kUnavailable,
                   "the server cannot answer, for longer than requests are repeated", status);
  }
  return refused(name, ErrorCode::kIo, "the server does not give the object", status);
}

Result<ObjectStamp> HttpStore::stamp(std::string_view key, const std::stop_token& stop) {
  const HttpAddress address = root_->address_of(key);
  ISOCOST_ASSIGN(const HttpResponse response, sender_->wait_for(
                                                  [&]() -> Result<HttpRequest> {
                                                    HttpRequest head = root_->request(address, {});
                                                    head.method = "HEAD";
                                                    return head;
                                                  },
                                                  stop));
  const int status = response.status;
  if (status == 403 || status == 405 || status == 501) return stamp_by_first_byte(address, stop);
  const std::string name = address.shown();
  if (status != 200) return root_->status_error(name, response);
  if (is_page(response)) return page_error(name);
  const auto length = parse_content_length(response.header("content-length"));
  if (!length) return stamp_by_first_byte(address, stop);
  return stamp_of(name, response, *length);
}

Result<ObjectStamp> HttpStore::stamp_by_first_byte(const HttpAddress& address,
                                                   const std::stop_token& stop) {
  const std::string name = address.shown();
  std::optional<HttpResponse> broken;
  const auto first_byte = [&]() -> Result<HttpRequest> {
    HttpRequest get = root_->request(address, {{"Range", "bytes=0-0"}});
    get.max_body_bytes = 1;
    get.on_broken = [&broken](HttpResponse response) {
      broken = std::move(response);
      return true;
    };
    return get;
  };
  Result<HttpResponse> response = sender_->wait_for(first_byte, stop);
  // A body over the limit of one byte: the server sends the whole object.
  if (!response && response.error().code() == ErrorCode::kResourceExhausted && broken) {
    response = *std::move(broken);
  }
  if (!response) return std::move(response).error();
  const bool told = response->status == 200 || response->status == 206 || response->status == 416;
  if (!told) return root_->status_error(name, *response);
  ISOCOST_ASSIGN(const std::int64_t bytes, size_by_first_byte(name, *response));
  return stamp_of(name, *response, bytes);
}

Result<std::vector<ListedObject>> HttpStore::list(std::string_view prefix, bool /*recursive*/,
                                                  const std::stop_token& /*stop*/) {
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("{}: an HTTP server does not list its objects; name them with braces, "
                           "such as {}{{000..099}}.tar, or give a file that lists their addresses",
                           name_of(prefix), name_of(prefix)));
}

void HttpStore::read(std::string_view key, const ObjectStamp& stamp, ByteRange range,
                     std::stop_token stop, Done done) {
  const HttpAddress address = root_->address_of(key);
  const std::string name = address.shown();
  read_range(*sender_,
             RangeRead{.name = name,
                       .stamp = stamp,
                       .range = range,
                       .make = [root = root_, address](HttpHeaders headers) -> Result<HttpRequest> {
                         return root->request(address, std::move(headers));
                       },
                       .status_error =
                           [root = root_, name](const HttpResponse& response) {
                             return root->status_error(name, response);
                           }},
             std::move(stop), std::move(done));
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> create_http_store(const std::string& root,
                                                       std::shared_ptr<RequestSender> sender) {
  auto address = parse_http_address(root);
  if (!address) {
    return std::move(address).error().with_context("the address of a data set");
  }
  return std::make_unique<HttpStore>(*std::move(address), std::move(sender));
}

}  // namespace isocost
