#include "decode/bytes/json_reader.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <span>
#include <system_error>

#include "base/utf8.h"

namespace isocost {
namespace {

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns "line 2, column 7". Columns count characters, as editors and Python do.
std::string place_of(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::string_view line = before.substr(before.rfind('\n') + 1);
  const auto column = std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // bytes that begin a character
  });
  return "line " + std::to_string(lines + 1) + ", column " + std::to_string(column + 1);
}

// Returns the characters at `at`, for messages.
std::string excerpt(std::string_view text, std::size_t at) {
  constexpr std::size_t kMost = 20;
  if (at >= text.size()) return "the end";
  std::string_view rest = text.substr(at);
  const bool cut = rest.size() > kMost;
  rest = rest.substr(0, kMost);
  if (cut)
    rest = rest.substr(0, std::max<std::size_t>(
                              valid_utf8_prefix(std::span(
                                  reinterpret_cast<const std::uint8_t*>(rest.data()), rest.size())),
                              1));
  rest = rest.substr(0, std::max<std::size_t>(std::min(rest.find('\n'), rest.size()), 1));
  return "'" + printable_utf8(rest) + "'";
}

void append_utf8(std::string& to, std::uint32_t code) {
  const auto add = [&to](std::uint32_t byte) { to += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | (code >> 6));
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | (code >> 12));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | (code >> 18));
    add(0x80 | ((code >> 12) & 0x3F));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

// Reads one text. It keeps a list of the objects and arrays that are open instead of calling
// itself, so that nesting takes no stack.
class Reader {
 public:
  Reader(std::string_view text, JsonEvents& events, std::size_t max_depth)
      : text_(text), events_(events), max_depth_(max_depth) {}

  Status read();

 private:
  Status value();
  Status open();
  Status next();
  Status close();
  Status key();
  Status string();
  Status escape();
  Result<std::uint32_t> code_unit();
  Status number();
  Status literal(std::string_view word);
  std::size_t digits();
  void skip_spaces() {
    while (at_ < text_.size() && is_json_space(text_[at_])) ++at_;
  }
  // Returns the next character; 0, which JSON has nowhere, at the end.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  Error wrong(std::string_view expected) const { return wrong_at(at_, expected); }
  Error wrong_at(std::size_t at, std::string_view expected) const {
    return {ErrorCode::kCorrupt, "is wrong at " + place_of(text_, at) + ": " +
                                     std::string(expected) + " is expected, and " +
                                     excerpt(text_, at) + " stands there"};
  }

  const std::string_view text_;
  JsonEvents& events_;
  const std::size_t max_depth_;
  std::size_t at_ = 0;
  std::string open_;   // '{' or '[' for each object or array that has not ended
  bool first_ = true;  // whether the innermost of them has just begun
  std::string found_;  // the last string
};

Status Reader::read() {
  const std::size_t valid = valid_utf8_prefix(
      std::span(reinterpret_cast<const std::uint8_t*>(text_.data()), text_.size()));
  if (valid < text_.size()) return wrong_at(valid, "UTF-8");
  skip_spaces();
  ISOCOST_TRY(value());
  while (!open_.empty()) ISOCOST_TRY(next());
  skip_spaces();
  if (at_ < text_.size()) return wrong("the end");
  return {};
}

// Reads a value, of an object or array only its beginning.
Status Reader::value() {
  switch (peek()) {
    case '{':
    case '[':
      return open();
    case '"':
      ISOCOST_TRY(string());
      return events_.string(found_);
    case 't':
      ISOCOST_TRY(literal("true"));
      return events_.boolean(true);
    case 'f':
      ISOCOST_TRY(literal("false"));
      return events_.boolean(false);
    case 'n':
      ISOCOST_TRY(literal("null"));
      return events_.null();
    default:
      return number();
  }
}

Status Reader::open() {
  if (open_.size() == max_depth_) {
    return Error(ErrorCode::kCorrupt, "nests more than " + std::to_string(max_depth_) +
                                          " deep at " + place_of(text_, at_));
  }
  const char bracket = text_[at_++];
  open_ += bracket;
  first_ = true;
  return bracket == '{' ? events_.begin_object() : events_.begin_array();
}

// Reads the next member or element of the innermost object or array, or its end.
Status Reader::next() {
  const bool is_object = open_.back() == '{';
  skip_spaces();
  if (peek() == (is_object ? '}' : ']')) return close();
  if (!first_) {
    if (!take(',')) return wrong(is_object ? "',' or '}'" : "',' or ']'");
    skip_spaces();
  }
  first_ = false;
  if (is_object) ISOCOST_TRY(key());
  return value();
}

Status Reader::close() {
  const bool is_object = open_.back() == '{';
  ++at_;
  open_.pop_back();
  first_ = false;
  return is_object ? events_.end_object() : events_.end_array();
}

Status Reader::key() {
  if (peek() != '"') return wrong("a name in double quotes");
  ISOCOST_TRY(string());
  ISOCOST_TRY(events_.key(found_));
  skip_spaces();
  if (!take(':')) return wrong("':'");
  skip_spaces();
  return {};
}

Status Reader::string() {
  found_.clear();
  for (++at_;;) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20) {
      ++at_;
    }
    found_.append(text_.substr(begin, at_ - begin));
    if (take('"')) return {};
    if (!take('\\')) {
      return wrong(at_ < text_.size() ? R"(an escape such as \n for a control character)"
                                      : "a string's closing quote");
    }
    ISOCOST_TRY(escape());
  }
}

// Reads what follows a backslash.
Status Reader::escape() {
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const std::size_t begin = at_ - 1;
  if (const std::size_t i = kNames.find(peek()); i != kNames.npos) {
    ++at_;
    found_ += kMeanings[i];
    return {};
  }
  if (!take('u')) return wrong_at(begin, "an escape of JSON");
  ISOCOST_ASSIGN(std::uint32_t code, code_unit());
  if (code >= 0xD800 && code < 0xE000) {
    // A character beyond 16 bits has two halves, the high one first.
    const bool is_high = code < 0xDC00;
    if (!is_high || !take('\\') || !take('u')) return wrong_at(begin, "both halves of a character");
    ISOCOST_ASSIGN(const std::uint32_t low, code_unit());
    if (low < 0xDC00 || low >= 0xE000) return wrong_at(begin, "both halves of a character");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(found_, code);
  return {};
}

Result<std::uint32_t> Reader::code_unit() {
  constexpr std::size_t kDigits = 4;
  std::uint32_t code = 0;
  const std::string_view four = text_.substr(at_, kDigits);
  const char* const first = four.data();
  const char* const end = first + four.size();
  const auto read = std::from_chars(first, end, code, 16);
  if (four.size() < kDigits || read.ptr != end) return wrong("an escape of four digits");
  at_ += kDigits;
  return code;
}

Status Reader::number() {
  const std::size_t begin = at_;
  const bool is_negative = take('-');
  if (peek() == 'I') {
    ISOCOST_TRY(literal("Infinity"));
    return events_.number(text_.substr(begin, at_ - begin));
  }
  if (!is_negative && peek() == 'N') {
    ISOCOST_TRY(literal("NaN"));
    return events_.number(text_.substr(begin, at_ - begin));
  }
  if (!is_digit(peek())) return wrong_at(begin, "a value");
  if (!take('0')) digits();
  if (take('.') && digits() == 0) return wrong("a digit");
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    if (digits() == 0) return wrong("a digit");
  }
  return events_.number(text_.substr(begin, at_ - begin));
}

Status Reader::literal(std::string_view word) {
  if (!text_.substr(at_).starts_with(word)) return wrong("a value");
  at_ += word.size();
  return {};
}

// Skips digits. Returns their number.
std::size_t Reader::digits() {
  const std::size_t begin = at_;
  while (is_digit(peek())) ++at_;
  return at_ - begin;
}

// Returns whether a number that no double holds is too large rather than too small: the place of
// its first digit above 0, counted from the decimal point, and the exponent together tell.
bool is_too_large(std::string_view token) {
  const std::size_t exponent_at = std::min(token.find_first_of("eE"), token.size());
  const std::string_view mantissa = token.substr(0, exponent_at);
  const auto point = static_cast<std::int64_t>(std::min(mantissa.find('.'), mantissa.size()));
  const auto first = static_cast<std::int64_t>(mantissa.find_first_of("123456789"));
  std::string_view digits = token.substr(std::min(exponent_at + 1, token.size()));
  if (digits.starts_with('+')) digits.remove_prefix(1);
  std::int64_t exponent = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (read.ec == std::errc::result_out_of_range) return !digits.starts_with('-');
  return exponent > first - point;
}

}  // namespace

Status read_json(std::string_view text, JsonEvents& events, std::size_t max_depth) {
  return Reader(without_byte_order_mark(text), events, max_depth).read();
}

double json_number(std::string_view token) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (token == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (token == "Infinity") return kInfinity;
  if (token == "-Infinity") return -kInfinity;
  double value = 0;
  const auto read = std::from_chars(token.data(), token.data() + token.size(), value);
  if (read.ec != std::errc::result_out_of_range) return value;
  if (!is_too_large(token)) return 0;
  return token.starts_with('-') ? -kInfinity : kInfinity;
}

}  // namespace isocost
