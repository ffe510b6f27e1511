#include "base/json_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/scratch_directory.h"

namespace isocost {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr JsonFormat kFormat{.name = "recipe", .max_bytes = 200, .max_depth = 3};

JsonObject good(const std::string& text) {
  auto object = JsonObject::parse(text, kFormat);
  EXPECT_TRUE(object) << object.error().to_string();
  return *std::move(object);
}

std::string refused(const std::string& text) {
  const auto object = JsonObject::parse(text, kFormat);
  EXPECT_FALSE(object) << text;
  EXPECT_EQ(object.error().code(), ErrorCode::kCorrupt);
  return object.error().message();
}

TEST(JsonObject, ReadsEachType) {
  const JsonObject object = good(R"({"version": 2, "a": "x", "n": -3, "s": 0.5, "on": true,
               "list": [{"k": 1}, {"k": 2}], "names": {"b": "y"}})");
  EXPECT_EQ(*object.text("a"), "x");
  EXPECT_EQ(*object.optional_text("b"), "");
  EXPECT_EQ(*object.whole("n", -3, 9), -3);
  EXPECT_EQ(*object.amount("s"), 0.5);
  EXPECT_TRUE(*object.flag("on"));
  const auto list = object.objects("list", 2);
  ASSERT_TRUE(list);
  EXPECT_EQ(*(*list)[1].whole("k", 0, 9), 2);
  EXPECT_EQ(object.texts("names")->front(), (std::pair<std::string, std::string>("b", "y")));
  EXPECT_TRUE(object.check_version(2));
  EXPECT_EQ(object.check_version(3).error().code(), ErrorCode::kUnsupported);
  // Another kind of document is no other version of this one.
  const auto other = good(R"({"version": 3, "kind": "data profile"})").check_version(2);
  EXPECT_EQ(other.error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(other.error().message().find("this is a data profile, not a "), 0U);
}

TEST(JsonObject, ReadsArraysOfNumbersAndOfStrings) {
  const JsonObject object = good(R"({"n": [1, 0.5], "t": ["a", ""], "x": [1, -1], "y": [null]})");
  EXPECT_EQ(*object.amounts("n", 2), (std::vector<double>{1, 0.5}));
  EXPECT_EQ(*object.text_list("t", 2), (std::vector<std::string>{"a", ""}));
  EXPECT_THAT(object.amounts("n", 1).error().message(), HasSubstr("more than 1 entry"));
  EXPECT_THAT(object.text_list("t", 1).error().message(), HasSubstr("more than 1 entry"));
  EXPECT_THAT(object.amounts("x", 2).error().message(), HasSubstr("'x.1' must be a finite number"));
  EXPECT_THAT(object.amounts("y", 2).error().message(), HasSubstr("'y.0' must be a finite number"));
  EXPECT_THAT(object.text_list("n", 2).error().message(), HasSubstr("'n.0' must be a string"));
  EXPECT_THAT(object.amounts("z", 2).error().message(), HasSubstr("'z' is missing"));
  EXPECT_THAT(object.text_list("z", 2).error().message(), HasSubstr("'z' is missing"));
}

TEST(JsonObject, AnInnerObjectOutlivesItsParent) {
  std::optional<JsonObject> inner;
  {
    const JsonObject outer = good(R"({"in": {"k": 7}})");
    inner = *outer.object("in");
  }
  EXPECT_EQ(*inner->whole("k", 0, 9), 7);
}

TEST(JsonObject, ErrorsNameThePathOfTheField) {
  const JsonObject object = good(
      R"({"m": {"n": 1.5, "x": -1, "s": 3}, "list": [{"k": 1}, 4], "big": 9223372036854775808})");
  const auto inner = object.object("m");
  ASSERT_TRUE(inner);
  EXPECT_EQ(inner->whole("n", 0, 9).error().message(), "recipe: 'm.n' must be an integer");
  EXPECT_EQ(inner->whole("none", 0, 9).error().message(), "recipe: 'm.none' is missing");
  EXPECT_EQ(inner->amount("x").error().message(), "recipe: 'm.x' must not be negative");
  EXPECT_EQ(inner->text("s").error().message(), "recipe: 'm.s' must be a string");
  EXPECT_EQ(inner->flag("s").error().message(), "recipe: 'm.s' must be true or false");
  EXPECT_EQ(inner->whole("s", 4, 9).error().message(), "recipe: 'm.s' must be between 4 and 9");
  EXPECT_EQ(inner->only_keys({"n", "x"}).error().message(), "recipe: 'm.s' is not a known key");
  EXPECT_EQ(object.objects("list", 9).error().message(), "recipe: 'list.1' must be an object");
  EXPECT_THAT(object.objects("list", 1).error().message(), HasSubstr("more than 1 entry"));
  EXPECT_THAT(object.whole("big", 0, 9).error().message(), HasSubstr("between 0 and 9"));
  EXPECT_FALSE(object.object("list"));
}

TEST(JsonObject, RefusesDuplicateKeysDeepNestingAndOverflows) {
  EXPECT_THAT(refused(R"({"a": 1, "a": 2})"), HasSubstr("'a' is given twice"));
  EXPECT_THAT(refused(R"({"a": {"b": {"c": {"d": {}}}}})"), HasSubstr("nested too deep"));
  EXPECT_THAT(refused(R"({"a": 1e999})"), HasSubstr("after 'a'"));
  EXPECT_THAT(refused("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refused(""), HasSubstr("recipe: "));
  EXPECT_THAT(refused(R"({"a": ")" + std::string(200, 'x') + "\"}"), HasSubstr("larger than"));
}

TEST(JsonObject, FilesAreNamed) {
  EXPECT_EQ(JsonObject::load("/nowhere/a.json", kFormat).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(JsonObject::load("/", kFormat).error().code(), ErrorCode::kInvalidArgument);
  const auto scratch = ScratchDirectory::create("isocost-json-object-test").value();
  const auto file = scratch / "broken.json";
  std::ofstream(file) << "{";
  const auto broken = JsonObject::load(file, kFormat);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(broken.error().message(), HasSubstr(file.string()));
  EXPECT_THAT(broken.error().message(), Not(HasSubstr("json.exception")));
}

}  // namespace
}  // namespace isocost
