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

TEST_F(ObjectNames, APrefixIsTheRootWithAndWithoutItsSlash) {
  for (const char* prefix : {"s3://bucket/data", "s3://bucket/data/"}) {
    const NamedFiles entry = one(prefix);
    EXPECT_EQ(entry.root, "s3://bucket/data/") << prefix;
    EXPECT_THAT(names_of(entry), ElementsAre("0.tar", "1.tar", "note.txt")) << prefix;
    ASSERT_EQ(entry.parts.size(), 1U);
    EXPECT_EQ(entry.parts[0].path, "");
    EXPECT_TRUE(entry.parts[0].meaning()("7.tar"));
  }
  for (const char* prefix : {"s3://bucket/more/en", "s3://bucket/more/en/"}) {
    EXPECT_EQ(one(prefix).root, "s3://bucket/more/en/");
    EXPECT_THAT(names_of(one(prefix)), ElementsAre("3.tar"));
  }
}

// On a disk the root is the directory before the first brace, too.
TEST_F(ObjectNames, PrefixesInBracesHaveTheRootBeforeThem) {
  for (const char* prefixes : {"s3://bucket/{data,more/en}", "s3://bucket/{data,more/en}/"}) {
    EXPECT_EQ(one(prefixes).root, "s3://bucket/");
    EXPECT_THAT(names_of(one(prefixes)),
                ElementsAre("data/0.tar", "data/1.tar", "data/note.txt", "more/en/3.tar"));
  }
}

TEST_F(ObjectNames, PrefixesInBracesAreListedAtOnce) {
  EXPECT_THAT(names_of(one("s3://bucket/gate/{1..4}/*.tar")),
              ElementsAre("1/a.tar", "2/a.tar", "3/a.tar", "4/a.tar"));
  // Patterns below one prefix share its listing.
  EXPECT_THAT(names_of(one("s3://bucket/data/{0,1}*.tar")), ElementsAre("0.tar", "1.tar"));
}

// It would be a request for each of them.
TEST_F(ObjectNames, NumbersWithoutTheEndingOfAShardAreRefusedAtTheFirst) {
  EXPECT_THAT(refused("s3://bucket/data/{7..9}"), HasSubstr("'7' is no shard"));
}

TEST_F(ObjectNames, AWordWithoutShardsBelowItIsRefused) {
  for (const char* word : {"s3://bucket/more", "s3://bucket/{data,more}"}) {
    EXPECT_THAT(
        refused(word),
        AllOf(HasSubstr("'more' is no shard (*.tar, "),
              HasSubstr("nothing lies directly below it either; name a prefix that has "
                        "shards, or those farther below, as in s3://BUCKET/PREFIX/**/*.tar"),
              Not(HasSubstr("query"))));
  }
}

TEST_F(ObjectNames, EncodedWildcardsAndBracesAreCharactersOfANameOfHttp) {
  EXPECT_THAT(names_of(one("http://h/data/q%3Fx.tar")), ElementsAre("q?x.tar"));
  EXPECT_THAT(names_of(one("http://h/data/%2A%5B1%5D-{0..1}.tar")),
              ElementsAre("*[1]-0.tar", "*[1]-1.tar"));
  EXPECT_THAT(names_of(one("http://h/data/%7B0..9%7D.tar")), ElementsAre("{0..9}.tar"));
  EXPECT_EQ(one("http://h/q%3F/x.tar").root, "http://h/q%3F/");
  for (const char* pattern : {"http://h/data/*.tar", "http://h/data/[01].tar", "http://h/data/"}) {
    EXPECT_THAT(refused(pattern), HasSubstr("a server of HTTP does not list its objects"));
  }
}

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

TEST_F(ObjectNames, APasswordThatIsNotEncodedIsRefusedAndNotShown) {
  for (const char* address : {"http://user:pl/anted@h/a.tar", "http://user:pl?anted@h/a.tar",
                              "https://user:pl/anted@h/"}) {
    EXPECT_THAT(refused(address), AllOf(HasSubstr("is no port"), HasSubstr("'%2F', '%3F', '%23'"),
                                        Not(HasSubstr("pl/")), Not(HasSubstr("anted"))));
  }
  EXPECT_THAT(names_of(one("http://user:pl%2Fanted@[::1]:80/a.tar")), ElementsAre("a.tar"));
}

TEST_F(ObjectNames, AWordOfHttpThatIsNoShardSaysWhereItsQueryBegins) {
  EXPECT_THAT(refused("http://h/data/q?x.tar"),
              AllOf(HasSubstr("'q' is no shard (*.tar, "),
                    HasSubstr("behind '?' begins the query (write '%3F' for a '?' in a name)")));
  EXPECT_THAT(refused("http://h/data/q"),
              AllOf(HasSubstr("'q' is no shard (*.tar, "), Not(HasSubstr("query"))));
}

TEST_F(ObjectNames, AVersionOfAnObjectIsRefused) {
  for (const char* address :
       {"s3://bucket/data/0.tar?versionId=3HL4", "s3://bucket/data/{0..1}.tar?versionId=3HL4"}) {
    EXPECT_THAT(refused(address),
                HasSubstr("'?' is a wildcard in names of s3://, and begins no query; leave "
                          "'?versionId=3HL4' out: versions are not selected"));
  }
  EXPECT_THAT(names_of(one("s3://bucket/data/?.tar")), ElementsAre("0.tar", "1.tar"));
  EXPECT_THAT(names_of(one("s3://bucket/data?/x=1/*.tar")), ElementsAre());
}

TEST_F(ObjectNames, APartThatIsNoFolderIsRefusedAnywhereInAnAddress) {
  for (const char* address :
       {"http://h/data/../data/s.tar", "http://h/data//s.tar", "http://h//s.tar",
        "http://h/./s.tar", "http://h/%2E%2e/s.tar", "http://h/a%2Fb/../s.tar",
        "http://h/data/{a,b}/../s.tar", "http://h/data/{,%2e%2e/}s.tar", "s3://bkt//data/s.tar",
        "s3://bkt//", "s3://bkt/data//", "s3://bkt/./data", "s3://bkt/data/..",
        "s3://bkt/data/../*.tar", "s3://bkt/*/../s.tar", "s3://bkt/*//s.tar",
        "s3://bkt/data/{/,}"}) {
    EXPECT_THAT(refused(address),
                AllOf(HasSubstr("within a name is no folder of a disk"),
                      HasSubstr("leave it out of the address, or store the objects under other")))
        << address;
  }
  EXPECT_THAT(refused("http://h/data//s.tar"),
              HasSubstr("'data//' is not read, since '//' within"));
  EXPECT_THAT(refused("s3://bucket/odd/**/*.tar"),
              HasSubstr("'/4.tar' is not read, since '//' within a name is no folder of a disk, "
                        "where its index has to lie; store the object under another name"));
  EXPECT_EQ(one("http://h/a%2Fb/...x/s.tar").root, "http://h/a%2Fb/...x/");
  EXPECT_EQ(one("s3://bkt/%2e%2e/s.tar").root, "s3://bkt/%2e%2e/") << "keys of S3 are not encoded";
  EXPECT_EQ(one("s3://bucket").root, one("s3://bucket/").root);
}

}  // namespace
}  // namespace isocost
