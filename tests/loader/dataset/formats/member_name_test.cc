#include "loader/dataset/formats/member_name.h"

#include <gtest/gtest.h>

#include <string>

namespace isocost {
namespace {

TEST(MemberName, KeyEndsAtTheFirstDotOfTheBaseName) {
  const auto expect = [](const std::string& name, const char* key, const char* part) {
    const MemberName split = split_member_name(name);
    EXPECT_EQ(split.key, key) << name;
    EXPECT_EQ(split.part, part) << name;
  };
  expect("cat.jpg", "cat", "jpg");
  expect("cat.0.png", "cat", "0.png");
  expect("v1.2/a/cat.caption.txt", "v1.2/a/cat", "caption.txt");
  expect("v1.2/cat", "v1.2/cat", "");
  expect(".hidden", "", "hidden");
  expect("a/.hidden", "a/", "hidden");
}

TEST(MemberName, IsMetadataAsWebDatasetHasIt) {
  for (const char* name : {"__meta__", "__a__/b.jpg", "____", "____/a.jpg", "__", "___",
                           "__a.jpg__", "__a__b__", "__a__/__b__"}) {
    EXPECT_TRUE(is_metadata_member(name)) << name;
  }
  for (const char* name : {"", "a", "__a", "a__", "__a.jpg", "__a__.jpg", "__/a.jpg", "___/a.jpg",
                           "b/__a__/c.jpg", "_a_/b.jpg", "__a_/b.jpg"}) {
    EXPECT_FALSE(is_metadata_member(name)) << name;
  }
}

TEST(MemberName, RefusesWhatCouldLeaveTheShardOrNameNothing) {
  for (const std::string good :
       {"cat.jpg", "a/b.0.png", "..a/b.txt", "a..b/c.txt", "a...txt", "Bär/Käse.txt"}) {
    EXPECT_EQ(refuse_member_name(good), std::nullopt) << good;
  }
  for (const std::string bad :
       {"", "/etc/cat.jpg", "../cat.jpg", "a/../b.jpg", "a/..", "./cat.jpg", ".//cat.jpg", "cat",
        "cat.", ".jpg", "a/.jpg", "a\nb.jpg", "\xFF.jpg", "__a__/b.jpg"}) {
    EXPECT_NE(refuse_member_name(bad), std::nullopt) << bad;
  }
  EXPECT_NE(refuse_member_name(std::string(5000, 'a') + ".txt"), std::nullopt);
  EXPECT_EQ(refuse_member_name(std::string(4000, 'a') + ".txt"), std::nullopt);
}

}  // namespace
}  // namespace isocost
