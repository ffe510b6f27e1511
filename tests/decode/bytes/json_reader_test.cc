#include "decode/bytes/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>

namespace isocost {
namespace {

using testing::HasSubstr;

// Writes the events down, as "{k:1,[true,null,]}".
class Notes final : public JsonEvents {
 public:
  Status null() override { return add("null,"); }
  Status boolean(bool value) override { return add(value ? "true," : "false,"); }
  Status number(std::string_view token) override { return add(std::string(token) + ","); }
  Status string(std::string& value) override { return add("'" + value + "',"); }
  Status key(std::string& name) override { return add(name + ":"); }
  Status begin_object() override { return add("{"); }
  Status end_object() override { return add("}"); }
  Status begin_array() override { return add("["); }
  Status end_array() override { return add("]"); }

  std::string text;

 private:
  Status add(std::string_view event) {
    text += event;
    return {};
  }
};

constexpr std::size_t kDepth = 8;

std::string events_of(std::string_view text) {
  Notes notes;
  const Status read = read_json(text, notes, kDepth);
  EXPECT_TRUE(read.has_value()) << text << ": " << read.error().message();
  return notes.text;
}

std::string error_of(std::string_view text) {
  Notes notes;
  const Status read = read_json(text, notes, kDepth);
  if (read.has_value()) return "accepted";
  EXPECT_EQ(read.error().code(), ErrorCode::kCorrupt);
  return read.error().message();
}

TEST(JsonReader, ReadsValuesInTheirOrder) {
  EXPECT_EQ(events_of(R"( {"a": [1, -2.5e+3, {}], "b": {"c": null}, "d": [true, false, []]} )"),
            "{a:[1,-2.5e+3,{}]b:{c:null,}d:[true,false,[]]}");
  EXPECT_EQ(events_of("7"), "7,");
  EXPECT_EQ(events_of("\"\""), "'',");
  EXPECT_EQ(events_of("\t[\r\n]"), "[]");
}

TEST(JsonReader, ReadsWhatPythonWrites) {
  EXPECT_EQ(events_of(R"({"a": NaN, "b": [Infinity, -Infinity]})"),
            "{a:NaN,b:[Infinity,-Infinity,]}");
  EXPECT_EQ(events_of("\xEF\xBB\xBF[0]"), "[0,]");
  const std::string long_number(400, '9');
  EXPECT_EQ(events_of(long_number), long_number + ",");
  EXPECT_EQ(events_of(R"("\u00e9\ud83d\ude00\u20AC\"\\\/\b\f\n\r\t")"),
            "'\xC3\xA9\xF0\x9F\x98\x80\xE2\x82\xAC\"\\/\b\f\n\r\t',");
}

TEST(JsonReader, ErrorsNameThePlaceAndWhatStandsThere) {
  EXPECT_EQ(
      error_of("{\"a\": 1,}"),
      "is wrong at line 1, column 9: a name in double quotes is expected, and '}' stands there");
  EXPECT_EQ(error_of("{\n  \"\u00e9\": tru\n}"),
            "is wrong at line 2, column 8: a value is expected, and 'tru' stands there");
  EXPECT_EQ(error_of("{\"a\" 1}"),
            "is wrong at line 1, column 6: ':' is expected, and '1}' stands there");
  EXPECT_EQ(error_of("{\"x\": \"a\"}\n{}"),
            "is wrong at line 2, column 1: the end is expected, and '{}' stands there");
  EXPECT_EQ(error_of(""),
            "is wrong at line 1, column 1: a value is expected, and the end stands there");
  EXPECT_EQ(error_of("[1 2]"),
            "is wrong at line 1, column 4: ',' or ']' is expected, and '2]' stands there");
  EXPECT_EQ(error_of("[[[[[[[[["), "nests more than 8 deep at line 1, column 9");
}

TEST(JsonReader, RefusesWhatPythonRefuses) {
  for (const char* text :
       {"{",    "[",     "[1",      "{\"a\"",    "{\"a\":",     "{\"a\":1", "[,1]", "{,}",
        "[1,]", "{1:2}", "{'a':1}", "nul",       "True",        "None",     "nan",  "Inf",
        "-NaN", "+1",    "01",      "1.",        ".5",          "1e",       "1e+",  "-",
        "0x10", "\"a",   "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"a\nb\"", "\"\\", "1 2",
        "[]]",  "{}}",   "[}",      "{]"}) {
    EXPECT_THAT(error_of(text), HasSubstr("is wrong at line 1, column ")) << text;
  }
  EXPECT_THAT(error_of(std::string_view("[1]\0", 4)), HasSubstr("the end is expected"));
  EXPECT_THAT(error_of(std::string_view("\"a\0\"", 4)), HasSubstr("control character"));
}

// Python reads and writes these, but they are no text that could be tokenized.
TEST(JsonReader, RefusesBytesAndHalfCharactersThatAreNoUtf8) {
  EXPECT_THAT(error_of("[\"a\xFF\"]"), HasSubstr("line 1, column 4: UTF-8 is expected"));
  EXPECT_THAT(error_of(R"("\ud800")"), HasSubstr("both halves of a character"));
  EXPECT_THAT(error_of(R"("\ude00\ud83d")"), HasSubstr("both halves of a character"));
  EXPECT_THAT(error_of(R"("\ud83dx")"), HasSubstr("both halves of a character"));
  EXPECT_THAT(error_of(R"("\ud83d\u0041")"), HasSubstr("both halves of a character"));
}

TEST(JsonReader, NumbersAreThoseOfPython) {
  EXPECT_EQ(json_number("0.25"), 0.25);
  EXPECT_EQ(json_number("-12e2"), -1200);
  EXPECT_TRUE(std::isnan(json_number("NaN")));
  EXPECT_EQ(json_number("Infinity"), HUGE_VAL);
  EXPECT_EQ(json_number("-Infinity"), -HUGE_VAL);
  EXPECT_EQ(json_number("1e999"), HUGE_VAL);
  EXPECT_EQ(json_number("-" + std::string(400, '9')), -HUGE_VAL);
  EXPECT_EQ(json_number(std::string(400, '9') + "e-1"), HUGE_VAL);
  EXPECT_EQ(json_number("1e-999"), 0);
  EXPECT_EQ(json_number("1e-99999999999999999999"), 0);
  EXPECT_EQ(json_number("1e99999999999999999999"), HUGE_VAL);
  EXPECT_EQ(json_number("0." + std::string(400, '0') + "1"), 0);
}

}  // namespace
}  // namespace isocost
