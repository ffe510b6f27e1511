// Parses a sample's JSON part event by event, so that the user's other members cost no memory.

#include "decode/bytes/sample_json.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {
namespace {

constexpr int kMaxDepth = 64;

class SampleReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool binary(binary_t&) override { return other(); }

  bool string(string_t& value) override {
    if (at_member("text")) {
      found_.text = std::move(value);
      return true;
    }
    return other();
  }

  bool key(string_t& name) override {
    if (depth_ == 1) {
      key_ = std::move(name);
      if (key_ == "messages" || key_ == "conversations") found_.is_conversation = true;
      bool* seen = key_ == "text" ? &seen_text_ : key_ == "weight" ? &seen_weight_ : nullptr;
      if (seen != nullptr && std::exchange(*seen, true))
        return fail("has the member " + key_ + " twice");
    }
    return true;
  }

  bool start_object(std::size_t) override { return other(true) && deeper(); }
  bool start_array(std::size_t) override { return other() && deeper(); }
  bool end_object() override { return shallower(); }
  bool end_array() override { return shallower(); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return fail("is not valid JSON in UTF-8 at byte " + std::to_string(position));
  }

  Result<SampleJson> take() {
    if (wrong_) return corrupt("its JSON " + *wrong_);
    return std::move(found_);
  }

 private:
  bool at_member(std::string_view name) const { return depth_ == 1 && key_ == name; }

  /// Takes a value that is none of ours, and must not stand in the place of one.
  bool other(bool object = false) {
    if (depth_ == 0 && !object) return fail("is no object");
    if (at_member("text")) return fail("has a 'text' that is no string");
    if (at_member("weight")) return fail("has a 'weight' that is no number");
    return true;
  }

  bool number(double value) {
    if (!at_member("weight")) return other();
    constexpr auto kMost = static_cast<double>(std::numeric_limits<float>::max());
    if (!(value >= 0 && value <= kMost)) {
      return fail("has a 'weight' that is negative or too large");
    }
    found_.weight = static_cast<float>(value);
    return true;
  }

  bool deeper() {
    ++depth_;
    return depth_ <= kMaxDepth || fail("nests more than " + std::to_string(kMaxDepth) + " deep");
  }

  bool shallower() {
    --depth_;
    return true;
  }

  bool fail(std::string what) {
    if (!wrong_) wrong_ = std::move(what);
    return false;
  }

  SampleJson found_;
  std::optional<std::string> wrong_;
  std::string key_;
  int depth_ = 0;
  bool seen_text_ = false;
  bool seen_weight_ = false;
};

}  // namespace

Result<SampleJson> parse_sample_json(std::string_view text) {
  SampleReader reader;
  try {
    nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  } catch (const nlohmann::json::exception&) {
    return corrupt("its JSON is not valid");
  }
  return reader.take();
}

}  // namespace isocost
