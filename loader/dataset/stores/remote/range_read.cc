#include "loader/dataset/stores/remote/range_read.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "loader/dataset/stores/remote/internal/range_response.h"

namespace isocost {
namespace {

// So many answers that are shorter than what was asked for, in one read, are too many.
constexpr int kMostParts = 1000;

// A read from its start to its `done`. Its attempts come one after another, so that it needs no
// mutex: the sender's passes it from thread to thread.
class Reading : public std::enable_shared_from_this<Reading> {
 public:
  Reading(RequestSender& sender, RangeRead read, std::stop_token stop, ObjectStore::Done done)
      : sender_(sender), read_(std::move(read)), stop_(std::move(stop)), done_(std::move(done)) {}

  void send() {
    const std::shared_ptr<Reading> self = shared_from_this();
    received_before_ = received_.size();
    ++parts_;
    sender_.send([self] { return self->request(); }, stop_,
                 [self](Result<HttpResponse> outcome) { self->ended(std::move(outcome)); });
  }

 private:
  ByteRange missing() const {
    return {read_.range.begin + static_cast<std::int64_t>(received_.size()), read_.range.end};
  }

  Result<HttpRequest> request();
  bool keep(HttpResponse response);
  Status take(HttpResponse response);
  void ended(Result<HttpResponse> outcome);
  Error error_of(Error error) const;

  RequestSender& sender_;
  const RangeRead read_;
  const std::stop_token stop_;
  const ObjectStore::Done done_;
  std::string received_;
  std::size_t received_before_ = 0;
  int parts_ = 0;
  std::optional<Error> failure_;  // The fault of a broken response, which no other attempt mends.
};

Result<HttpRequest> Reading::request() {
  const ByteRange range = missing();
  if (read_.range.begin < 0 || range.bytes() < 0 || range.end > read_.stamp.bytes) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("{}: bytes {} to {} are not within the object, which has {} bytes",
                             read_.name, read_.range.begin, read_.range.end, read_.stamp.bytes));
  }
  // `ended` knows that nothing is missing.
  if (range.bytes() == 0) return Error(ErrorCode::kCancelled, "nothing to read");
  ISOCOST_ASSIGN(HttpRequest request, read_.make(range_headers(read_.stamp, range)));
  request.max_body_bytes = static_cast<std::size_t>(range.bytes());
  request.on_broken = [self = shared_from_this()](HttpResponse response) {
    return self->keep(std::move(response));
  };
  return request;
}

// Keeps what a broken response has. Returns whether another attempt can bring the rest.
bool Reading::keep(HttpResponse response) {
  if (const Status taken = take(std::move(response)); !taken) failure_ = taken.error();
  return !failure_;
}

Status Reading::take(HttpResponse response) {
  ISOCOST_ASSIGN(const std::int64_t bytes,
                 check_range_response(read_.name, read_.stamp, missing(), response));
  response.body.resize(static_cast<std::size_t>(bytes));
  if (received_.empty()) {
    received_ = std::move(response.body);
  } else {
    received_ += response.body;
  }
  return {};
}

void Reading::ended(Result<HttpResponse> outcome) {
  if (missing().bytes() == 0 && read_.range.end <= read_.stamp.bytes) {
    return done_(std::move(received_));
  }
  if (!outcome) return done_(error_of(std::move(outcome).error()));
  const int status = outcome->status;
  if ((status < 200 || status >= 300) && status != 412 && status != 416) {
    return done_(read_.status_error(*outcome));
  }
  if (const Status taken = take(*std::move(outcome)); !taken) return done_(taken.error());
  if (missing().bytes() == 0) return done_(std::move(received_));
  if (received_.size() > received_before_ && parts_ < kMostParts) return send();
  done_(Error(ErrorCode::kIo, fmt::format("{}: the server gives {} of {} bytes of a range that the "
                                          "object has",
                                          read_.name, received_.size(), read_.range.bytes())));
}

Error Reading::error_of(Error error) const {
  if (failure_) return *failure_;
  if (error.code() == ErrorCode::kResourceExhausted) {
    return {ErrorCode::kIo,
            fmt::format("{}: the server sends more bytes than were asked for", read_.name)};
  }
  if (error.code() != ErrorCode::kUnavailable || received_.empty()) return error;
  return {error.code(), fmt::format("{}; {} of {} bytes had come", error.message(),
                                    received_.size(), read_.range.bytes())};
}

}  // namespace

void read_range(RequestSender& sender, RangeRead read, std::stop_token stop,
                ObjectStore::Done done) {
  std::make_shared<Reading>(sender, std::move(read), std::move(stop), std::move(done))->send();
}

}  // namespace isocost
