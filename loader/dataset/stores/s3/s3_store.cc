#include "loader/dataset/stores/s3/s3_store.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "base/utf8.h"
#include "loader/dataset/stores/remote/header_values.h"
#include "loader/dataset/stores/remote/range_read.h"
#include "loader/dataset/stores/s3/internal/aws_hosts.h"
#include "loader/dataset/stores/s3/internal/listing_page.h"
#include "loader/dataset/stores/s3/internal/s3_bucket.h"

namespace isocost {
namespace {

constexpr std::size_t kMostPageBytes = std::size_t{16} << 20;
constexpr std::size_t kMostObjects = 20'000'000;

// Asks the services that hand out credentials: those on the network's own addresses by a client
// that gives up soon, since on most machines nothing answers there.
class CredentialClient {
 public:
  explicit CredentialClient(HttpClient& client) : client_(client) {}

  Result<HttpResponse> ask(HttpRequest request, const std::stop_token& stop) {
    if (request.use_proxy) return client_.wait_for(std::move(request), stop);
    ISOCOST_TRY(make_nearby());
    return nearby_->wait_for(std::move(request), stop);
  }

 private:
  Status make_nearby() {
    const MutexLock lock(mutex_);
    if (nearby_) return {};
    HttpClientOptions options;
    options.connect_timeout = std::chrono::seconds(2);
    options.stall_timeout = std::chrono::seconds(5);
    ISOCOST_ASSIGN(nearby_, HttpClient::create(options));
    return {};
  }

  HttpClient& client_;
  Mutex mutex_;
  std::unique_ptr<HttpClient> nearby_;  // Set once, under the mutex.
};

bool is_success(int status) { return status >= 200 && status < 300; }

// The parts of a store that outlast its reads.
class BucketStore final : public ObjectStore {
 public:
  BucketStore(std::unique_ptr<CredentialClient> credentials, std::unique_ptr<S3Bucket> bucket,
              HttpClient& client, const RequestSenderOptions& options)
      : credentials_(std::move(credentials)),
        bucket_(std::move(bucket)),
        sender_(RequestSender::create(client, options)) {}
  BucketStore(const BucketStore&) = delete;
  BucketStore& operator=(const BucketStore&) = delete;
  // The sender's thread may wait for credentials, and its destructor for the thread.
  ~BucketStore() override { ending_.request_stop(); }

  std::string name_of(std::string_view key) const override { return bucket_->name_of(key); }
  Result<ObjectStamp> stamp(std::string_view key, const std::stop_token& stop) override;
  Result<std::vector<ListedObject>> list(std::string_view prefix, bool recursive,
                                         const std::stop_token& stop) override;
  void read(std::string_view key, const ObjectStamp& stamp, ByteRange range, std::stop_token stop,
            Done done) override;

  StoreCounts counts() const override {
    return {sender_->counts(), bucket_->credential_renewals()};
  }

 private:
  class Reading;

  Result<HttpResponse> ask(const S3Question& question, S3Attempt& attempt, std::size_t most_bytes,
                           const std::stop_token& stop);
  Result<ListingPage> list_page(const S3Question& question, const std::string& name,
                                const std::stop_token& stop);

  std::stop_source ending_;
  const std::unique_ptr<CredentialClient> credentials_;
  const std::unique_ptr<S3Bucket> bucket_;
  const std::unique_ptr<RequestSender> sender_;
};

// Sends a request, and once more where its refusal can be mended. Returns the last response.
Result<HttpResponse> BucketStore::ask(const S3Question& question, S3Attempt& attempt,
                                      std::size_t most_bytes, const std::stop_token& stop) {
  const auto make = [&]() -> Result<HttpRequest> {
    ISOCOST_ASSIGN(HttpRequest request, bucket_->make(question, attempt, ending_.get_token()));
    request.max_body_bytes = most_bytes;
    return request;
  };
  Result<HttpResponse> response = sender_->wait_for(make, stop);
  if (!response || is_success(response->status)) return response;
  const S3Failure failure = bucket_->explain("", question, attempt, *response);
  return bucket_->mend(failure, attempt) ? sender_->wait_for(make, stop) : std::move(response);
}

ObjectStamp stamp_of(const HttpResponse& response, std::int64_t bytes) {
  return {.bytes = bytes,
          .etag = std::string(response.header("etag")),
          .modified_s = parse_http_date(response.header("last-modified")).value_or(0)};
}

// The size of an object by the response to a request for its first byte.
std::optional<std::int64_t> size_by_first_byte(const HttpResponse& response) {
  const auto range = parse_content_range(response.header("content-range"));
  if (range && (response.status == 206 || response.status == 416)) return range->total;
  if (response.status != 200) return std::nullopt;
  return parse_content_length(response.header("content-length"));
}

Result<ObjectStamp> BucketStore::stamp(std::string_view key, const std::stop_token& stop) {
  S3Question question{.method = "HEAD", .key = std::string(key)};
  S3Attempt attempt;
  ISOCOST_ASSIGN(const HttpResponse head, ask(question, attempt, 0, stop));
  const auto length = parse_content_length(head.header("content-length"));
  if (head.status == 200 && length) return stamp_of(head, *length);
  // The response to HEAD has no body, which would say why. A GET of a byte says it.
  question.method = "GET";
  question.headers = {{"range", "bytes=0-0"}};
  ISOCOST_ASSIGN(const HttpResponse first, ask(question, attempt, kMostPageBytes, stop));
  const std::string name = name_of(key);
  if (const auto bytes = size_by_first_byte(first)) return stamp_of(first, *bytes);
  if (!is_success(first.status)) return bucket_->explain(name, question, attempt, first).error;
  return Error(ErrorCode::kIo, name + ": the server does not tell the object's size (status " +
                                   std::to_string(first.status) + ")");
}

Result<ListingPage> BucketStore::list_page(const S3Question& question, const std::string& name,
                                           const std::stop_token& stop) {
  S3Attempt attempt;
  ISOCOST_ASSIGN(const HttpResponse response, ask(question, attempt, kMostPageBytes, stop));
  if (response.status != 200) return bucket_->explain(name, question, attempt, response).error;
  Result<ListingPage> page = parse_listing_page(response.body);
  if (page) return page;
  return Error(ErrorCode::kIo, name + ": the answer to a request for a listing " +
                                   page.error().message() + "; check that the endpoint, " +
                                   bucket_->endpoint_name() +
                                   ", is right, and whether a proxy answers");
}

Result<std::vector<ListedObject>> BucketStore::list(std::string_view prefix, bool recursive,
                                                    const std::stop_token& stop) {
  S3Question question{.query = {{"list-type", "2"},
                                {"encoding-type", "url"},
                                {"max-keys", "1000"},
                                {"prefix", std::string(prefix)}}};
  if (!recursive) question.query.emplace_back("delimiter", "/");
  const std::size_t given = question.query.size();
  const std::string name = name_of(prefix);
  std::vector<ListedObject> objects;
  for (std::string token;;) {
    question.query.resize(given);
    if (!token.empty()) question.query.emplace_back("continuation-token", token);
    ISOCOST_ASSIGN(ListingPage page, list_page(question, name, stop));
    for (ListedObject& object : page.objects) {
      if (!object.key.ends_with('/')) objects.push_back(std::move(object));
    }
    if (page.next_token.empty()) break;
    if (page.next_token == token || objects.size() > kMostObjects) {
      return Error(ErrorCode::kIo, name +
                                       ": the listing does not end: the server gives the same "
                                       "page again, or more than 20 million objects");
    }
    token = std::move(page.next_token);
  }
  std::ranges::sort(objects, {}, &ListedObject::key);
  return objects;
}

// A read of a range, which is begun again once where its refusal can be mended. Its attempts come
// one after another.
class BucketStore::Reading : public std::enable_shared_from_this<Reading> {
 public:
  Reading(BucketStore& store, std::string_view key, ObjectStamp stamp, ByteRange range,
          std::stop_token stop, Done done)
      : store_(store),
        name_(store.name_of(key)),
        question_{.key = std::string(key)},
        stamp_(std::move(stamp)),
        range_(range),
        stop_(std::move(stop)),
        done_(std::move(done)) {}

  void start() {
    const std::shared_ptr<Reading> self = shared_from_this();
    read_range(
        *store_.sender_,
        RangeRead{.name = name_,
                  .stamp = stamp_,
                  .range = range_,
                  .make = [self](HttpHeaders headers) { return self->make(std::move(headers)); },
                  .status_error =
                      [self](const HttpResponse& response) { return self->refused(response); }},
        stop_, [self](Result<std::string> bytes) { self->ended(std::move(bytes)); });
  }

 private:
  Result<HttpRequest> make(HttpHeaders headers) {
    question_.headers = std::move(headers);
    return store_.bucket_->make(question_, attempt_, store_.ending_.get_token());
  }

  Error refused(const HttpResponse& response) {
    S3Failure failure = store_.bucket_->explain(name_, question_, attempt_, response);
    again_ = !was_begun_again_ && store_.bucket_->mend(failure, attempt_);
    return std::move(failure.error);
  }

  void ended(Result<std::string> bytes) {
    if (!again_) return done_(std::move(bytes));
    again_ = false;
    was_begun_again_ = true;
    start();
  }

  BucketStore& store_;
  const std::string name_;
  S3Question question_;
  const ObjectStamp stamp_;
  const ByteRange range_;
  const std::stop_token stop_;
  const Done done_;
  S3Attempt attempt_;
  bool again_ = false;
  bool was_begun_again_ = false;
};

void BucketStore::read(std::string_view key, const ObjectStamp& stamp, ByteRange range,
                       std::stop_token stop, Done done) {
  std::make_shared<Reading>(*this, key, stamp, range, std::move(stop), std::move(done))->start();
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> create_s3_store(const std::string& bucket,
                                                     const S3Options& options, HttpClient& client,
                                                     const RequestSenderOptions& sending) {
  ISOCOST_ASSIGN(const SharedProfile profile,
                 read_shared_profile(options.environment, options.profile));
  ISOCOST_ASSIGN(S3Endpoint endpoint, S3Endpoint::create(options, profile, bucket));
  std::string region = options.region;
  if (region.empty()) region = configured_region(options.environment, profile);
  if (!region.empty() && !is_region(region)) {
    return Error(
        ErrorCode::kInvalidArgument,
        "'" + printable_utf8(region.substr(0, 80)) +
            "' is no region of S3, such as us-east-1: check AWS_REGION, AWS_DEFAULT_REGION "
            "and the profile");
  }
  auto asking = std::make_unique<CredentialClient>(client);
  const AskService ask = [&credentials = *asking](HttpRequest request,
                                                  const std::stop_token& stop) {
    return credentials.ask(std::move(request), stop);
  };
  ISOCOST_ASSIGN(CredentialSource source, find_credential_source(options, profile, ask));
  std::unique_ptr<CredentialKeeper> keeper;
  if (!source.name.empty()) {
    keeper = std::make_unique<CredentialKeeper>(std::move(source), sending.log);
  }
  auto parts = std::make_unique<S3Bucket>(bucket, std::move(endpoint), std::move(region),
                                          options.requester_pays, std::move(keeper), sending.log,
                                          system_wall_clock());
  return std::make_unique<BucketStore>(std::move(asking), std::move(parts), client, sending);
}

}  // namespace isocost
