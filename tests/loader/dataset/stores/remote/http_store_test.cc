#include "loader/dataset/stores/remote/http_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>

#include "tests/loader/dataset/stores/remote/fault_server_fixture.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HttpStoreTest : public FaultServerFixture {
 protected:
  // A store whose waits are short, so that giving up is, too.
  void open(const std::string& root, milliseconds give_up_after = seconds(60)) {
    store_ =
        create_http_store(root, RequestSender::create(*client_, {.give_up_after = give_up_after}))
            .value();
  }
  ObjectStamp stamp(const std::string& key = "a.bin") {
    const auto stamp = store_->stamp(key, {});
    EXPECT_TRUE(stamp) << stamp.error().message();
    return stamp.value_or(ObjectStamp{});
  }
  Error stamp_error(const std::string& key = "a.bin") {
    const auto stamp = store_->stamp(key, {});
    return stamp ? Error(ErrorCode::kInternal, "no error") : stamp.error();
  }
  Result<std::string> read(ByteRange range, const ObjectStamp& stamp,
                           const std::string& key = "a.bin") {
    std::promise<Result<std::string>> bytes;
    store_->read(key, stamp, range, {},
                 [&bytes](Result<std::string> read) { bytes.set_value(std::move(read)); });
    return bytes.get_future().get();
  }
  // Reads a range, which must fail with this code and text.
  void expect_refused(ByteRange range, ErrorCode code, const std::string& text) {
    const auto bytes = read(range, kStamp);
    ASSERT_FALSE(bytes) << text;
    EXPECT_EQ(bytes.error().code(), code) << bytes.error().message();
    EXPECT_THAT(bytes.error().message(), StartsWith(store_->name_of("a.bin") + ": "));
    EXPECT_THAT(bytes.error().message(), HasSubstr(text));
  }
  void SetUp() override {
    FaultServerFixture::SetUp();
    open(url(""));
    kStamp = stamp();
    server().clear_log();
  }

  std::unique_ptr<HttpClient> client_ =
      HttpClient::create({.ca_file = "", .stall_timeout = seconds(1)}).value();
  std::unique_ptr<ObjectStore> store_;
  ObjectStamp kStamp;  // NOLINT(readability-identifier-naming)
};

constexpr ByteRange kRange{1000, 3000};

TEST_F(HttpStoreTest, GivesTheStampOfAnObject) {
  const ObjectStamp stamp = this->stamp();
  EXPECT_EQ(stamp.bytes, static_cast<std::int64_t>(kBytes));
  EXPECT_TRUE(stamp.etag.starts_with('"'));
  EXPECT_GT(stamp.modified_s, 1'700'000'000);
  EXPECT_EQ(this->stamp("empty.bin").bytes, 0);
  EXPECT_EQ(this->stamp("with space.bin").bytes, 10);
  for (const auto& request : requests()) EXPECT_EQ(request["method"], "HEAD");
}

TEST_F(HttpStoreTest, AsksForTheFirstByteWhereHeadIsRefused) {
  const ObjectStamp by_head = kStamp;
  for (const int status : {403, 405, 501}) {
    set_rules({{{"fault", "status"}, {"status", status}, {"method", "HEAD"}}});
    EXPECT_EQ(stamp(), by_head) << status;
    EXPECT_EQ(stamp("empty.bin").bytes, 0) << status;
  }
  EXPECT_EQ(requests()[1]["headers"]["range"], "bytes=0-0");
}

TEST_F(HttpStoreTest, NeedsASizeFromTheServer) {
  set_rules(
      {{{"fault", "status"}, {"status", 405}, {"method", "HEAD"}}, {{"fault", "ignore_range"}}});
  const Error error = stamp_error();
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_THAT(error.message(), HasSubstr("a.bin: the server does not tell the object's size: it "
                                         "refuses HEAD, and ignores Range (status 200)"));
}

TEST_F(HttpStoreTest, AsksForTheFirstByteWhereHeadTellsNoSize) {
  set_rules(
      {{{"fault", "headers"}, {"headers", {{"Content-Length", nullptr}}}, {"method", "HEAD"}}});
  EXPECT_EQ(stamp(), kStamp);
}

TEST_F(HttpStoreTest, NamesWhatTheServerRefusesAtTheStart) {
  EXPECT_EQ(stamp_error("no.bin").code(), ErrorCode::kNotFound);
  EXPECT_EQ(stamp_error("no.bin").message(),
            url("no.bin") + ": the server has no such object (status 404)");
  for (const int status : {401, 403}) {
    set_rules({{{"fault", "status"}, {"status", status}}});
    EXPECT_EQ(stamp_error().code(), ErrorCode::kIo);
    EXPECT_THAT(stamp_error().message(),
                HasSubstr("a.bin: access is denied: some servers say so of "
                          "an object that is not there"));
  }
  set_rules({{{"fault", "html"}}});
  EXPECT_EQ(stamp_error().code(), ErrorCode::kIo);
  EXPECT_THAT(stamp_error().message(), HasSubstr("a.bin: a web page (text/html) came instead"));
}

TEST_F(HttpStoreTest, SendsThePresignedQueryAndShowsItNowhere) {
  open(server().address().substr(0, 7) + "me:secret@" + url("").substr(7) +
       "?X-Amz-Signature=secret");
  EXPECT_EQ(store_->name_of("a b/c.tar"), url("a%20b/c.tar"));
  EXPECT_EQ(stamp(), kStamp);
  EXPECT_EQ(requests()[0]["path"], "/a.bin?X-Amz-Signature=secret");
  EXPECT_EQ(requests()[0]["headers"]["authorization"], "Basic bWU6c2VjcmV0");
  ASSERT_TRUE(read(kRange, kStamp));
  EXPECT_EQ(requests()[1]["path"], "/a.bin?X-Amz-Signature=secret");
  set_rules({{{"fault", "status"}, {"status", 403}}});
  EXPECT_THAT(stamp_error().message(), HasSubstr("the signature in the address's query may have "
                                                 "expired"));
  EXPECT_THAT(stamp_error().message(), Not(HasSubstr("secret")));
  set_rules({{{"fault", "reset"}}});
  open(server().address().substr(0, 7) + "me:secret@" + url("").substr(7) +
           "?X-Amz-Signature=secret",
       milliseconds(1));
  EXPECT_THAT(stamp_error().message(), Not(HasSubstr("secret")));
}

TEST_F(HttpStoreTest, TakesTheRootForTheObjectOfTheEmptyKey) {
  open(url("a.bin") + "?signature=1");
  EXPECT_EQ(store_->name_of(""), url("a.bin"));
  EXPECT_EQ(stamp(""), kStamp);
}

TEST_F(HttpStoreTest, AddsASlashToTheRoot) {
  open(url("deep"));
  EXPECT_EQ(store_->name_of("x/y.tar"), url("deep/x/y.tar"));
}

TEST_F(HttpStoreTest, RefusesARootThatIsNone) {
  const auto store = create_http_store("s3://secret/x", RequestSender::create(*client_));
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(HttpStoreTest, CannotList) {
  const auto listed = store_->list("train/", false, {});
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(listed.error().message(), HasSubstr("name them with braces"));
}

TEST_F(HttpStoreTest, ReadsARangeOfTheObjectThatItKnows) {
  const auto bytes = read(kRange, kStamp);
  ASSERT_TRUE(bytes) << bytes.error().message();
  EXPECT_EQ(*bytes, content().substr(1000, 2000));
  EXPECT_EQ(requests()[0]["headers"]["range"], "bytes=1000-2999");
  EXPECT_EQ(requests()[0]["headers"]["if-match"], kStamp.etag);
  EXPECT_EQ(requests()[0]["headers"]["accept-encoding"], "identity");
}

TEST_F(HttpStoreTest, ReadsNothingAndTheWhole) {
  EXPECT_EQ(read({10, 10}, kStamp).value(), "");
  EXPECT_EQ(read({0, 0}, stamp("empty.bin"), "empty.bin").value(), "");
  EXPECT_EQ(read({0, kBytes}, kStamp).value(), content());
}

TEST_F(HttpStoreTest, RefusesARangeOutsideOfTheObject) {
  for (const ByteRange range : {ByteRange{-1, 5}, ByteRange{5, 4}, ByteRange{0, kBytes + 1},
                                ByteRange{kBytes + 1, kBytes + 1}}) {
    expect_refused(range, ErrorCode::kInvalidArgument, "are not within the object");
  }
  EXPECT_TRUE(requests().empty());
}

TEST_F(HttpStoreTest, RefusesAReplacedObject) {
  set_rules({{{"fault", "changed"}, {"etag", "\"other\""}}});
  expect_refused(kRange, ErrorCode::kUnavailable,
                 "the object has changed since it was listed or indexed: its ETag is no longer " +
                     kStamp.etag);
  // A server that does not compare the ETag, but tells it.
  set_rules({{{"fault", "changed"}, {"etag", "\"other\""}, {"keep_if_match", true}}});
  expect_refused(kRange, ErrorCode::kUnavailable, "and is \"other\"");
  EXPECT_EQ(requests().size(), 2U);
}

TEST_F(HttpStoreTest, ComparesSizeAndTimeWhereThereIsNoStrongEtag) {
  set_rules({{{"fault", "headers"}, {"headers", {{"ETag", "W/\"1\""}}}}});
  kStamp = stamp();
  EXPECT_EQ(kStamp.etag, "W/\"1\"");
  server().clear_log();
  EXPECT_EQ(read(kRange, kStamp).value(), content().substr(1000, 2000));
  EXPECT_FALSE(requests()[0]["headers"].contains("if-match"));
  --kStamp.modified_s;
  expect_refused(kRange, ErrorCode::kUnavailable, "it was modified 1 s later");
  ++kStamp.modified_s;
  ++kStamp.bytes;
  expect_refused(kRange, ErrorCode::kUnavailable, "it had 200001 bytes and has 200000");
}

TEST_F(HttpStoreTest, RefusesAnObjectThatGrewShorter) {
  set_rules({{{"fault", "headers"}, {"headers", {{"ETag", nullptr}}}}});
  kStamp = stamp();
  kStamp.bytes += 1000;
  expect_refused({200'100, 200'200}, ErrorCode::kUnavailable, "it had 201000 bytes and has 200000");
}

TEST_F(HttpStoreTest, RefusesAServerThatIgnoresRange) {
  set_rules({{{"fault", "ignore_range"}}});
  expect_refused(kRange, ErrorCode::kIo, "the server ignores Range");
  expect_refused({0, kBytes - 1}, ErrorCode::kIo, "the server ignores Range");
  EXPECT_EQ(read({0, kBytes}, kStamp).value(), content());
  set_rules({{{"fault", "ignore_range"}, {"times", 1}}});
  expect_refused(kRange, ErrorCode::kIo, "the server ignores Range");
}

TEST_F(HttpStoreTest, RefusesAnotherRange) {
  set_rules({{{"fault", "wrong_range"}, {"shift", 1}}});
  expect_refused(
      kRange, ErrorCode::kIo,
      "the server answers another range: bytes 1000-2999 were asked for, 1001-3000 came");
}

TEST_F(HttpStoreTest, AsksForTheRestOfARangeThatIsShorter) {
  set_rules({{{"fault", "short_range"}, {"bytes", 900}}});
  EXPECT_EQ(read(kRange, kStamp).value(), content().substr(1000, 2000));
  EXPECT_EQ(requests().size(), 3U);
  EXPECT_EQ(requests()[2]["headers"]["range"], "bytes=2800-2999");
}

TEST_F(HttpStoreTest, EndsARangeThatComesByteByByte) {
  set_rules({{{"fault", "short_range"}, {"bytes", 1}}});
  expect_refused(kRange, ErrorCode::kIo,
                 "the server gives 1000 of 2000 bytes of a range that the object has");
}

TEST_F(HttpStoreTest, ResumesABodyWithoutALengthWhereItEnds) {
  // Nothing but Content-Range tells the end of such a body from a connection that was closed.
  set_rules(
      {{{"fault", "cut"}, {"after", 700}, {"how", "close"}, {"length", false}, {"times", 1}}});
  EXPECT_EQ(read(kRange, kStamp).value(), content().substr(1000, 2000));
  EXPECT_EQ(requests()[1]["headers"]["range"], "bytes=1700-2999");
}

TEST_F(HttpStoreTest, RefusesAPage) {
  set_rules({{{"fault", "html"}}});
  expect_refused(kRange, ErrorCode::kIo, "a web page (text/html) came instead of the object");
  expect_refused({0, 10}, ErrorCode::kIo, "a web page (text/html) came instead of the object");
  expect_refused({0, kBytes}, ErrorCode::kIo, "a web page (text/html) came instead of the object");
}

TEST_F(HttpStoreTest, NamesAnObjectThatWentAwayOrIsDenied) {
  set_rules({{{"fault", "status"}, {"status", 404}}});
  expect_refused(kRange, ErrorCode::kNotFound, "the server has no such object (status 404)");
  set_rules({{{"fault", "status"}, {"status", 403}}});
  expect_refused(kRange, ErrorCode::kIo, "access is denied");
  set_rules({{{"fault", "status"}, {"status", 407}}});
  expect_refused(kRange, ErrorCode::kIo, "the proxy denies access");
  set_rules({{{"fault", "status"}, {"status", 418}}});
  expect_refused(kRange, ErrorCode::kIo, "the server does not give the object (status 418)");
}

TEST_F(HttpStoreTest, GivesUpOnAServerThatStaysOverloaded) {
  open(url(""), milliseconds(200));
  set_rules({{{"fault", "status"}, {"status", 503}}});
  expect_refused(
      kRange, ErrorCode::kUnavailable,
      "the server asks to send less, for longer than requests are repeated (status 503)");
  set_rules({{{"fault", "status"}, {"status", 502}}});
  expect_refused(kRange, ErrorCode::kUnavailable, "the server cannot answer, for longer");
}

TEST_F(HttpStoreTest, ResumesABodyWhereItBroke) {
  for (const std::string how : {"close", "reset"}) {
    server().clear_log();
    set_rules({{{"fault", "cut"}, {"after", 700}, {"how", how}, {"times", 2}}});
    EXPECT_EQ(read(kRange, kStamp).value(), content().substr(1000, 2000)) << how;
    const auto seen = requests();
    ASSERT_EQ(seen.size(), 3U);
    EXPECT_EQ(seen[1]["headers"]["range"], "bytes=1700-2999");
    EXPECT_EQ(seen[2]["headers"]["range"], "bytes=2400-2999");
    EXPECT_EQ(seen[2]["headers"]["if-match"], kStamp.etag);
  }
}

TEST_F(HttpStoreTest, ResumesABodyThatStalls) {
  set_rules({{{"fault", "stall"}, {"after", 700}, {"times", 1}}});
  EXPECT_EQ(read(kRange, kStamp).value(), content().substr(1000, 2000));
  EXPECT_EQ(requests()[1]["headers"]["range"], "bytes=1700-2999");
}

TEST_F(HttpStoreTest, NeverJoinsTwoObjects) {
  set_rules({{{"fault", "cut"}, {"after", 700}, {"times", 1}}, {{"fault", "changed"}}});
  expect_refused(kRange, ErrorCode::kUnavailable, "the object has changed");
}

TEST_F(HttpStoreTest, KeepsNothingOfABrokenBodyOfAnotherObject) {
  set_rules({{{"fault", "cut"}, {"after", 700}}});
  kStamp.etag = "W/" + kStamp.etag;
  ++kStamp.modified_s;
  expect_refused(kRange, ErrorCode::kUnavailable, "the object has changed");
  EXPECT_EQ(requests().size(), 1U);
}

TEST_F(HttpStoreTest, GivesUpOnOneByteASecond) {
  open(url(""), milliseconds(1500));
  set_rules({{{"fault", "drip"}, {"interval", 0.5}}});
  expect_refused(kRange, ErrorCode::kUnavailable, "the transfer stalled");
  const auto bytes = read(kRange, kStamp);
  EXPECT_THAT(bytes.error().message(), HasSubstr("of 2000 bytes had come"));
}

TEST_F(HttpStoreTest, SharesASenderWithOthers) {
  const std::shared_ptr<RequestSender> sender = RequestSender::create(*client_);
  auto first = create_http_store(url("") + "?signature=1", sender).value();
  const auto second = create_http_store(url("") + "?signature=2", sender).value();
  EXPECT_EQ(first->stamp("a.bin", {}).value(), kStamp);
  EXPECT_EQ(second->stamp("a.bin", {}).value(), kStamp);
  EXPECT_EQ(sender->counts().requests, 2);
  EXPECT_EQ(requests()[1]["path"], "/a.bin?signature=2");
  // A read goes on without its store.
  set_rules({{{"fault", "cut"}, {"after", 700}, {"times", 2}}});
  std::promise<std::string> bytes;
  first->read("a.bin", kStamp, kRange, {},
              [&bytes](Result<std::string> read) { bytes.set_value(std::move(read).value()); });
  first.reset();
  EXPECT_EQ(bytes.get_future().get(), content().substr(1000, 2000));
}

TEST_F(HttpStoreTest, FollowsARedirectOfAnObject) {
  set_rules({{{"fault", "redirect"}, {"location", "/a.bin?cdn=1"}, {"path", "bin$"}}});
  EXPECT_EQ(stamp("moved.bin"), kStamp);
  EXPECT_EQ(read(kRange, kStamp, "moved.bin").value(), content().substr(1000, 2000));
}

TEST_F(HttpStoreTest, ReadsManyRangesAtOnceThroughFaults) {
  set_rules({{{"fault", "latency"}, {"ms", 5}},
             {{"fault", "status"}, {"status", 503}, {"share", 0.05}},
             {{"fault", "reset"}, {"share", 0.05}},
             {{"fault", "cut"}, {"after", 300}, {"share", 0.1}}});
  std::vector<std::future<Result<std::string>>> reads;
  for (std::int64_t i = 0; i < 200; ++i) {
    const auto bytes = std::make_shared<std::promise<Result<std::string>>>();
    reads.push_back(bytes->get_future());
    store_->read("a.bin", kStamp, {i * 1000, (i + 1) * 1000}, {},
                 [bytes](Result<std::string> read) { bytes->set_value(std::move(read)); });
  }
  std::string whole;
  for (auto& read : reads) whole += read.get().value();
  EXPECT_EQ(whole, content());
}

TEST_F(HttpStoreTest, CancelsAReadOnRequestAndAtItsEnd) {
  set_rules({{{"fault", "stall"}, {"after", 10}}});
  for (const bool by_token : {true, false}) {
    std::stop_source stop;
    std::promise<ErrorCode> ended;
    store_->read("a.bin", kStamp, kRange, stop.get_token(),
                 [&ended](const Result<std::string>& read) {
                   ended.set_value(read ? ErrorCode::kInternal : read.error().code());
                 });
    if (by_token) {
      stop.request_stop();
    } else {
      store_.reset();
    }
    EXPECT_EQ(ended.get_future().get(), ErrorCode::kCancelled);
  }
}

}  // namespace
}  // namespace isocost
