// yaml-cpp's parser gives events; its own nodes, which follow aliases, are not made.

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <charconv>
#include <sstream>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "decode/bytes/media_bytes.h"
#include "loader/dataset/formats/internal/meta_builder.h"
#include "loader/dataset/formats/internal/meta_value.h"

namespace isocost {
namespace {

// Leaves yaml-cpp's parser, which has no other way to be ended.
struct Refused {
  Error error;
};

bool is_yaml_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, failed] = std::from_chars(text.begin(), text.end(), value);
  const bool is_word = text.find_first_of("iInN") != text.npos;  // "inf", "nan"
  return failed == std::errc() && end == text.end() && !is_word;
}

MetaValue plain_scalar(const std::string& text) {
  const std::string lower = lower_ascii(text);
  if (lower == "null" || lower == "~" || lower.empty()) return MetaValue::null();
  if (lower == "true" || lower == "yes") return MetaValue::boolean(true);
  if (lower == "false" || lower == "no") return MetaValue::boolean(false);
  return is_yaml_number(text) ? MetaValue::number(text) : MetaValue::text(text);
}

class Handler final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, "", anchor);
    take(mark, builder_.scalar(MetaValue::null()));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    refuse(mark, corrupt("an alias ('*'), which is not read; write the value out"));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, tag, anchor);
    if (!is_utf8(value)) refuse(mark, corrupt("a text is not UTF-8"));
    const bool is_quoted = tag == "!";  // yaml-cpp's mark of it
    take(mark, builder_.scalar(is_quoted ? MetaValue::text(value) : plain_scalar(value)));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    check(mark, tag, anchor);
    take(mark, builder_.begin(MetaValue::list()));
  }
  void OnSequenceEnd() override { take(YAML::Mark::null_mark(), builder_.end()); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    check(mark, tag, anchor);
    take(mark, builder_.begin(MetaValue::map()));
  }
  void OnMapEnd() override { take(YAML::Mark::null_mark(), builder_.end()); }

  MetaBuilder& builder() { return builder_; }

 private:
  [[noreturn]] static void refuse(const YAML::Mark& mark, Error error) {
    if (mark.is_null()) throw Refused{std::move(error)};
    throw Refused{std::move(error).with_context(fmt::format("line {}", mark.line + 1))};
  }
  static void take(const YAML::Mark& mark, Status status) {
    if (!status) refuse(mark, std::move(status).error());
  }
  static void check(const YAML::Mark& mark, std::string_view tag, YAML::anchor_t anchor) {
    if (anchor != 0) refuse(mark, corrupt("an anchor ('&'), which is not read; remove it"));
    // yaml-cpp gives "?" for what has no tag, and "!" for a quoted text without one.
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(mark, corrupt("a tag ('!'), which is not read; remove it"));
    }
  }

  MetaBuilder builder_;
};

Result<MetaValue> parse(std::string_view text) {
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  Handler handler;
  if (!parser.HandleNextDocument(handler)) return corrupt("it is empty");
  Handler second;
  if (parser.HandleNextDocument(second)) return corrupt("it holds a second document ('---')");
  return std::move(handler.builder()).take();
}

}  // namespace

Result<MetaValue> parse_meta_yaml(std::string_view text) {
  try {
    return parse(text);
  } catch (Refused& refused) {
    return std::move(refused.error);
  } catch (const YAML::ParserException& error) {
    return corrupt(fmt::format("line {}, column {}: {}", error.mark.line + 1, error.mark.column + 1,
                               printable_utf8(error.msg)));
  } catch (const YAML::Exception& error) {
    return corrupt(printable_utf8(error.what()));
  }
}

}  // namespace isocost
