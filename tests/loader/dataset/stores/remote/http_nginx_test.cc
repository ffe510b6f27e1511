// Plain objects and TLS from a real server. ctest counts these tests as skipped where nginx or
// openssl is not installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <vector>

#include "base/random.h"
#include "base/scratch_directory.h"
#include "loader/dataset/stores/remote/http_store.h"
#include "tests/support/nginx_server.h"

namespace isocost {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kBytes = 3'000'000;

void write_file(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

std::string random_bytes(std::uint64_t seed) {
  Random random(seed);
  std::string bytes(kBytes, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.next());
  return bytes;
}

class HttpNginxTest : public ::testing::Test {
 protected:
  struct Shared {
    ScratchDirectory scratch = ScratchDirectory::create("isocost-nginx-test").value();
    std::string content = random_bytes(1);
    NginxServer server = start();

   private:
    NginxServer start() const {
      const std::filesystem::path files = scratch / "files";
      std::filesystem::create_directories(files / "a b");
      std::filesystem::create_directory(scratch / "nginx");
      write_file(files / "a b" / "\xc3\xa9+%#?.tar", content);
      write_file(files / "a.tar", content);
      write_file(files / "empty.tar", "");
      return NginxServer::start(files, scratch / "nginx",
                                "rewrite ^/to_http/(.*)$ http://127.0.0.1:1/$1 redirect;")
          .value();
    }
  };

  static void SetUpTestSuite() {
    if (!NginxServer::installed()) return;
    // Settings of this machine, which know nothing of the tests' servers.
    for (const char* variable : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                 "ALL_PROXY", "SSL_CERT_FILE", "AWS_CA_BUNDLE"}) {
      ::unsetenv(variable);
    }
    shared_ = std::make_unique<Shared>();
  }
  static void TearDownTestSuite() { shared_.reset(); }

  void SetUp() override {
    if (!NginxServer::installed()) GTEST_SKIP() << "nginx or openssl is not installed";
    ASSERT_TRUE(shared_);
    open(server().address());
  }

  static const NginxServer& server() { return shared_->server; }
  static const std::string& content() { return shared_->content; }
  static std::filesystem::path files() { return shared_->scratch / "files"; }

  void open(const std::string& root, const HttpClientOptions& options = {}) {
    store_.reset();
    client_ = HttpClient::create(options).value();
    store_ = create_http_store(root, RequestSender::create(
                                         *client_, {.give_up_after = std::chrono::milliseconds(1)}))
                 .value();
  }
  std::future<Result<std::string>> start_read(const std::string& key, const ObjectStamp& stamp,
                                              ByteRange range) {
    const auto bytes = std::make_shared<std::promise<Result<std::string>>>();
    store_->read(key, stamp, range, {},
                 [bytes](Result<std::string> read) { bytes->set_value(std::move(read)); });
    return bytes->get_future();
  }
  Result<std::string> read(const std::string& key, const ObjectStamp& stamp, ByteRange range) {
    return start_read(key, stamp, range).get();
  }
  Error stamp_error(const std::string& key = "a.tar") {
    const auto stamp = store_->stamp(key, {});
    return stamp ? Error(ErrorCode::kInternal, "no error") : stamp.error();
  }

  std::unique_ptr<HttpClient> client_;
  std::unique_ptr<ObjectStore> store_;

 private:
  inline static std::unique_ptr<Shared> shared_;
};

TEST_F(HttpNginxTest, GivesStamps) {
  const ObjectStamp stamp = store_->stamp("a.tar", {}).value();
  EXPECT_EQ(stamp.bytes, static_cast<std::int64_t>(kBytes));
  EXPECT_TRUE(stamp.etag.starts_with('"')) << stamp.etag;
  EXPECT_GT(stamp.modified_s, 1'700'000'000);
  EXPECT_EQ(store_->stamp("empty.tar", {})->bytes, 0);
  EXPECT_EQ(stamp_error("no.tar").code(), ErrorCode::kNotFound);
}

TEST_F(HttpNginxTest, ReadsRangesOfAnyKey) {
  for (const std::string key : {"a.tar", "a b/\xc3\xa9+%#?.tar"}) {
    const ObjectStamp stamp = store_->stamp(key, {}).value();
    Random random(2);
    for (int i = 0; i < 50; ++i) {
      const auto begin = static_cast<std::int64_t>(random.below(kBytes));
      const auto bytes = static_cast<std::int64_t>(random.below(kBytes - begin) + 1);
      const auto given = read(key, stamp, {begin, begin + bytes});
      ASSERT_TRUE(given) << given.error().message();
      ASSERT_EQ(*given, content().substr(begin, bytes)) << begin << " " << bytes;
    }
  }
}

TEST_F(HttpNginxTest, ReadsManyRangesAtOnce) {
  const ObjectStamp stamp = store_->stamp("a.tar", {}).value();
  std::vector<std::future<Result<std::string>>> reads;
  for (std::int64_t begin = 0; begin < static_cast<std::int64_t>(kBytes); begin += 10'000) {
    reads.push_back(start_read("a.tar", stamp, {begin, begin + 10'000}));
  }
  std::string whole;
  for (auto& read : reads) whole += read.get().value();
  EXPECT_EQ(whole, content());
}

TEST_F(HttpNginxTest, RefusesAReplacedObject) {
  const std::filesystem::path file = files() / "replaced.tar";
  write_file(file, random_bytes(3));
  const ObjectStamp stamp = store_->stamp("replaced.tar", {}).value();
  ASSERT_TRUE(read("replaced.tar", stamp, {0, 100}));
  write_file(file, random_bytes(4) + "longer");
  const auto replaced = read("replaced.tar", stamp, {0, 100});
  ASSERT_FALSE(replaced);
  EXPECT_EQ(replaced.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(replaced.error().message(), HasSubstr("replaced.tar: the object has changed"));
  std::filesystem::remove(file);
  const auto removed = read("replaced.tar", stamp, {0, 100});
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code(), ErrorCode::kNotFound);
}

TEST_F(HttpNginxTest, TrustsTheAuthorityOfTheOption) {
  open(server().tls_address(), {.ca_file = server().certificate().string()});
  const auto stamp = store_->stamp("a.tar", {});
  ASSERT_TRUE(stamp) << stamp.error().message();
  EXPECT_EQ(read("a.tar", *stamp, {5, 50'000}).value(), content().substr(5, 49'995));
}

TEST_F(HttpNginxTest, TrustsTheAuthorityOfTheEnvironment) {
  ::setenv("SSL_CERT_FILE", server().certificate().c_str(), 1);
  open(server().tls_address());
  ::unsetenv("SSL_CERT_FILE");
  EXPECT_TRUE(store_->stamp("a.tar", {}));
}

TEST_F(HttpNginxTest, SaysWhereItLookedForAnUnknownAuthority) {
  open(server().tls_address());
  const Error error = stamp_error();
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_THAT(error.message(),
              HasSubstr(server().tls_address() + "a.tar: the server cannot be trusted: "));
  EXPECT_THAT(error.message(),
              HasSubstr("certificates were looked for in SSL_CERT_FILE (not set)"));
  EXPECT_THAT(error.message(), HasSubstr("set ca_file or SSL_CERT_FILE"));
}

TEST_F(HttpNginxTest, NamesACertificateOfAnotherHost) {
  std::string other = server().tls_address();
  other.replace(other.find("127.0.0.1"), 9, "localhost");
  open(other, {.ca_file = server().certificate().string()});
  const Error error = stamp_error();
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_THAT(error.message(), HasSubstr("the server's certificate is another host's"));
}

TEST_F(HttpNginxTest, NamesAFileOfCertificatesThatHasNone) {
  const std::filesystem::path file = files() / "no.pem";
  write_file(file, "no certificate");
  open(server().tls_address(), {.ca_file = file.string()});
  const Error error = stamp_error();
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_THAT(error.message(), HasSubstr(file.string() + " (ca_file)"));
}

TEST_F(HttpNginxTest, FollowsNoRedirectFromHttpsToHttp) {
  open(server().tls_address(), {.ca_file = server().certificate().string()});
  const Error error = stamp_error("to_http/a.tar?secret");
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_THAT(error.message(), HasSubstr("the server redirects from HTTPS to HTTP, to "
                                         "http://127.0.0.1:1; this is not followed"));
}

TEST_F(HttpNginxTest, SaysThatAPortSpeaksTls) {
  std::string plain = server().tls_address();
  plain.replace(0, 5, "http");
  open(plain);
  EXPECT_THAT(stamp_error().message(), HasSubstr("(status 400)"));
}

}  // namespace
}  // namespace isocost
