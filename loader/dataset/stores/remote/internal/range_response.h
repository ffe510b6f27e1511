#pragma once

#include <cstdint>
#include <string>

#include "base/byte_range.h"
#include "base/result.h"
#include "loader/dataset/stores/remote/http_message.h"
#include "loader/dataset/stores/remote/object_store.h"

namespace isocost {

/// Returns the headers that ask for a range of an object that has this stamp: the exact range, and
/// the object's ETag where servers compare it.
HttpHeaders range_headers(const ObjectStamp& stamp, ByteRange range);

/// Checks that a response with status 2xx, 412 or 416 has the bytes of a range of an object with
/// this stamp. Returns how many bytes of its body, from its start, are the range's: fewer than the
/// range has if the server gives fewer. Errors: kUnavailable (the object has changed), kIo (a page
/// instead of the object, a range ignored, refused, or another one, nothing that tells the object
/// from another). Pure.
Result<std::int64_t> check_range_response(const std::string& name, const ObjectStamp& stamp,
                                          ByteRange range, const HttpResponse& response);

/// Returns the error of a response that is a web page instead of the object.
Error page_error(const std::string& name);
/// Whether a response says that it is a web page.
bool is_page(const HttpResponse& response);

}  // namespace isocost
