#include "loader/dataset/stores/remote/internal/range_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "loader/dataset/stores/remote/header_values.h"

namespace isocost {
namespace {

constexpr std::string_view kChanged =
    "the object has changed since it was listed or indexed: {}; put the former object back, or "
    "start again so that it is indexed anew";

template <typename... Args>
Error changed(const std::string& name, fmt::format_string<Args...> how, Args&&... args) {
  const std::string what = fmt::format(how, std::forward<Args>(args)...);
  return {ErrorCode::kUnavailable,
          fmt::format("{}: {}", name, fmt::format(fmt::runtime(kChanged), what))};
}

Error refused(const std::string& name, std::string_view what) {
  return {ErrorCode::kIo, fmt::format("{}: {}", name, what)};
}

Error ignores_range(const std::string& name) {
  return refused(name,
                 "the server ignores Range: it answers with the whole object (status 200) where a "
                 "part was asked for; serve the data from a server that supports range requests, "
                 "such as nginx, or copy it to a disk");
}

// A weak ETag beside a strong one is the same if all else is, as where a proxy made it weak.
Status check_same_etag(const std::string& name, std::string_view before, std::string_view now) {
  const auto opaque = [](std::string_view etag) {
    return etag.starts_with("W/") ? etag.substr(2) : etag;
  };
  if (opaque(before) == opaque(now)) return {};
  return changed(name, "its ETag was {} and is {}", before, now);
}

Status check_same_time(const std::string& name, std::int64_t before_s, std::int64_t now_s) {
  if (before_s == now_s) return {};
  return changed(name, "it was modified {} s {}", std::abs(now_s - before_s),
                 now_s > before_s ? "later" : "earlier");
}

// Compares what tells an object from the one that replaced it: strong ETags, else the times, else
// weak ETags, in which the servers of one object may disagree. A response that leaves out what the
// stamp has, as behind a proxy that drops it, may have any object's bytes.
Status check_same_object(const std::string& name, const ObjectStamp& stamp,
                         const HttpResponse& response) {
  const std::string_view etag = response.header("etag");
  if (is_strong_etag(stamp.etag) && is_strong_etag(etag)) {
    return check_same_etag(name, stamp.etag, etag);
  }
  const auto modified = parse_http_date(response.header("last-modified"));
  if (stamp.modified_s != 0 && modified) return check_same_time(name, stamp.modified_s, *modified);
  if (!stamp.etag.empty() && !etag.empty()) return check_same_etag(name, stamp.etag, etag);
  if (stamp.etag.empty() && stamp.modified_s == 0) return {};
  return refused(name,
                 "the server told the object's ETag or time at first, and now tells neither, so "
                 "that a replaced object could not be told from this one; have the server, and a "
                 "proxy before it, send ETag or Last-Modified with every response");
}

Result<std::int64_t> check_partial(const std::string& name, const ObjectStamp& stamp,
                                   ByteRange range, const HttpResponse& response) {
  const std::string_view header = response.header("content-range");
  const auto given = parse_content_range(header);
  if (!given || !given->range) {
    if (is_page(response)) return page_error(name);
    return refused(name, fmt::format("the server answers with a part of the object, but its "
                                     "Content-Range is none: '{}'",
                                     header.substr(0, 80)));
  }
  if (given->total && *given->total != stamp.bytes) {
    return changed(name, "it had {} bytes and has {}", stamp.bytes, *given->total);
  }
  if (given->range->begin != range.begin || given->range->end > range.end) {
    return refused(
        name, fmt::format("the server answers another range: bytes {}-{} were asked "
                          "for, {}-{} came",
                          range.begin, range.end - 1, given->range->begin, given->range->end - 1));
  }
  return std::min(static_cast<std::int64_t>(response.body.size()), given->range->bytes());
}

// The whole object is as good as a range of it, if nothing else was asked for.
Result<std::int64_t> check_whole(const std::string& name, const ObjectStamp& stamp, ByteRange range,
                                 const HttpResponse& response) {
  if (is_page(response)) return page_error(name);
  const auto length = parse_content_length(response.header("content-length"));
  if (range.begin != 0 || range.end != stamp.bytes) {
    if (length && *length != stamp.bytes) {
      return changed(name, "it had {} bytes and has {}", stamp.bytes, *length);
    }
    return ignores_range(name);
  }
  const auto received = static_cast<std::int64_t>(response.body.size());
  if (length.value_or(received) != stamp.bytes || received > stamp.bytes) {
    return changed(name, "it had {} bytes and has {}", stamp.bytes, length.value_or(received));
  }
  return received;
}

Error refused_range(const std::string& name, const ObjectStamp& stamp,
                    const HttpResponse& response) {
  const auto given = parse_content_range(response.header("content-range"));
  if (given && given->total && *given->total != stamp.bytes) {
    return changed(name, "it had {} bytes and has {}", stamp.bytes, *given->total);
  }
  return refused(name, "the server refuses a range of the object (status 416)");
}

}  // namespace

HttpHeaders range_headers(const ObjectStamp& stamp, ByteRange range) {
  HttpHeaders headers{{"Range", fmt::format("bytes={}-{}", range.begin, range.end - 1)}};
  if (is_strong_etag(stamp.etag)) headers.emplace_back("If-Match", stamp.etag);
  return headers;
}

bool is_page(const HttpResponse& response) {
  const std::string_view type = response.header("content-type");
  constexpr std::string_view kPage = "text/html";
  return type.size() >= kPage.size() &&
         std::equal(kPage.begin(), kPage.end(), type.begin(), [](char expected, char c) {
           return (c >= 'A' && c <= 'Z' ? c + 32 : c) == expected;
         });
}

Error page_error(const std::string& name) {
  return refused(name,
                 "a web page (text/html) came instead of the object: a proxy or a login stands "
                 "before the server; check the address, and HTTPS_PROXY and NO_PROXY");
}

Result<std::int64_t> check_range_response(const std::string& name, const ObjectStamp& stamp,
                                          ByteRange range, const HttpResponse& response) {
  switch (response.status) {
    case 206: {
      ISOCOST_TRY(check_same_object(name, stamp, response));
      return check_partial(name, stamp, range, response);
    }
    case 200: {
      if (is_page(response)) return page_error(name);
      ISOCOST_TRY(check_same_object(name, stamp, response));
      return check_whole(name, stamp, range, response);
    }
    case 412:
      return changed(name, "its ETag is no longer {}", stamp.etag);
    case 416:
      return refused_range(name, stamp, response);
    default:
      return refused(name, fmt::format("the server answers a request for a range with status {}",
                                       response.status));
  }
}

}  // namespace isocost
