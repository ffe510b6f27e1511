// Addresses and the objects that they name. A server lists a bucket; one of HTTP is asked nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/names/named_files.h"
#include "loader/dataset/stores/stores.h"
#include "tests/loader/dataset/stores/s3/python_server.h"

namespace isocost {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ObjectNames : public testing::Test {
 protected:
  // One for all tests, as it takes a while to start.
  static const PythonServer& bucket() {
    static const PythonServer server("s3_listing.py");
    return server;
  }
  ObjectNames() {
    // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs yet.
    setenv("AWS_ENDPOINT_URL_S3", bucket().address().c_str(), 1);
    setenv("ISOCOST_S3_ANONYMOUS", "1", 1);
    // NOLINTEND(concurrency-mt-unsafe)
  }
  NamedFiles one(std::string_view address) {
    auto entries = resolve_names(address, {}, &stores_);
    EXPECT_TRUE(entries.has_value()) << entries.error().to_string();
    return entries && entries->size() == 1 ? entries->front() : NamedFiles();
  }
  static std::vector<std::string> names_of(const NamedFiles& entry) {
    std::vector<std::string> names;
    for (const NamedPart& part : entry.parts) {
      if (part.kind == NamedPart::Kind::kFile) names.push_back(part.path);
      names.insert(names.end(), part.files.begin(), part.files.end());
    }
    return names;
  }
  std::string refused(std::string_view address) {
    const auto entries = resolve_names(address, {}, &stores_);
    EXPECT_FALSE(entries.has_value()) << address;
    if (entries) return "";
    EXPECT_EQ(entries.error().code(), ErrorCode::kInvalidArgument) << address;
    return entries.error().message();
  }

 private:
  Stores stores_{{}};
};

TEST_F(ObjectNames, ANumberSignInAnAddressOfHttpIsRefused) {
  for (const char* address :
       {"http://h/a.tar#b.tar", "http://h/h#x.tar", "http://h/a.tar?sig=planted#x",
        "http://h#/a.tar", "http://user:planted#@h/a.tar"}) {
    EXPECT_THAT(refused(address),
                AllOf(HasSubstr("'#' ends the path of an address"),
                      HasSubstr("write '%23' for a '#' in a name"), Not(HasSubstr("planted"))));
  }
  EXPECT_THAT(names_of(one("http://h/a%23b.tar")), ElementsAre("a#b.tar"));
  EXPECT_THAT(names_of(one("s3://bucket/a#b.tar")), ElementsAre("a#b.tar"));
}

}  // namespace
}  // namespace isocost
