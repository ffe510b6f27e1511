#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "base/byte_range.h"
#include "base/result.h"
#include "loader/dataset/stores/remote/http_message.h"
#include "loader/dataset/stores/remote/object_store.h"
#include "loader/dataset/stores/remote/request_sender.h"

namespace isocost {

/// A range of an object to read over HTTP, and how its server is asked.
struct RangeRead {
  std::string name;   ///< The object's name in messages.
  ObjectStamp stamp;  ///< The stamp that the object must still have.
  ByteRange range;
  /// Makes the GET request of an attempt, as RequestSender::MakeRequest; `headers` (Range,
  /// If-Match) are to be sent with it.
  std::function<Result<HttpRequest>(HttpHeaders headers)> make;
  /// Says what a response means whose status is neither 2xx nor 412 nor 416.
  std::function<Error(const HttpResponse&)> status_error;
};

/// Reads a range through a sender, which must outlive the read. A body that breaks off is resumed
/// where it broke. `done` is called once, on a thread of the sender or its client, where it must
/// not block, with all bytes of the range or an error. Errors: kInvalidArgument (a range that is
/// not within the object), kUnavailable (the object has changed; the server cannot be reached, or
/// asks to wait, for longer than the sender repeats), kIo (a page instead of the object, a range
/// that is ignored or another), those of `make` and `status_error`, kCancelled.
void read_range(RequestSender& sender, RangeRead read, std::stop_token stop,
                ObjectStore::Done done);

}  // namespace isocost
