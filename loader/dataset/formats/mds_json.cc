#include "loader/dataset/formats/mds_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "decode/bytes/json_reader.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {
namespace {

constexpr std::size_t kMaxDepthOfValue = 64;

bool is_of_json(const MdsColumn& column) {
  return column.use() == MdsUse::kObject || column.use() == MdsUse::kMember;
}

// Notes whether a text is an object, and the names of its members.
class TopLevel final : public JsonEvents {
 public:
  Status key(std::string& name) override {
    if (depth_ == 1) names.insert(name);
    return {};
  }
  Status begin_object() override {
    if (depth_++ == 0) is_object = true;
    return {};
  }
  Status end_object() override { return up(); }
  Status begin_array() override {
    ++depth_;
    return {};
  }
  Status end_array() override { return up(); }

  std::set<std::string> names;
  bool is_object = false;

 private:
  Status up() {
    --depth_;
    return {};
  }
  std::size_t depth_ = 0;
};

// Returns a number as Python's json module writes it, with the mark of one that is no integer.
std::string float_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

template <typename T>
T as(std::string_view value) {
  static_assert(std::endian::native == std::endian::little);
  std::array<char, sizeof(T)> bytes{};
  std::ranges::copy(value, bytes.begin());
  return std::bit_cast<T>(bytes);
}

double from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int fraction = bits & 0x3FF;
  const double sign = (bits >> 15) != 0 ? -1 : 1;
  if (exponent == 0x1F) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction + 0x400, exponent - 25);
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Accepts the numbers of str_int, str_float and str_decimal as Python's str() writes them.
Result<std::string> number_text(std::string_view value) {
  if (value == "nan" || value == "NaN") return std::string("NaN");
  if (value == "inf" || value == "Infinity") return std::string("Infinity");
  if (value == "-inf" || value == "-Infinity") return std::string("-Infinity");
  class Number final : public JsonEvents {
   public:
    Status number(std::string_view /*token*/) override {
      is_number = true;
      return {};
    }
    bool is_number = false;
  } found;
  const bool starts = !value.empty() && value.find_first_of(" \t\r\n\xEF") == value.npos;
  if (!starts || !read_json(value, found, 0) || !found.is_number) {
    constexpr std::size_t kShown = 40;
    return corrupt("'" + printable_utf8(value.substr(0, kShown)) + "' is no number");
  }
  return std::string(value);
}

Result<std::string> json_value(std::string_view value) {
  JsonEvents nothing;
  if (auto read = read_json(value, nothing, kMaxDepthOfValue); !read) {
    return corrupt("its JSON " + read.error().message());
  }
  return std::string(without_byte_order_mark(value));
}

Result<std::string> value_text(const MdsColumn& column, std::string_view value) {
  const auto size = column.size();
  if (size && value.size() != static_cast<std::size_t>(*size)) {
    return corrupt(fmt::format("it has {} bytes", value.size()));
  }
  switch (column.encoding) {
    case MdsEncoding::kInt8:
      return fmt::format("{}", static_cast<int>(as<std::int8_t>(value)));
    case MdsEncoding::kInt16:
      return fmt::format("{}", as<std::int16_t>(value));
    case MdsEncoding::kInt32:
      return fmt::format("{}", as<std::int32_t>(value));
    case MdsEncoding::kInt64:
      return fmt::format("{}", as<std::int64_t>(value));
    case MdsEncoding::kUint8:
      return fmt::format("{}", static_cast<int>(as<std::uint8_t>(value)));
    case MdsEncoding::kUint16:
      return fmt::format("{}", as<std::uint16_t>(value));
    case MdsEncoding::kUint32:
      return fmt::format("{}", as<std::uint32_t>(value));
    case MdsEncoding::kUint64:
      return fmt::format("{}", as<std::uint64_t>(value));
    case MdsEncoding::kFloat16:
      return float_text(from_half(as<std::uint16_t>(value)));
    case MdsEncoding::kFloat32:
      return float_text(static_cast<double>(as<float>(value)));
    case MdsEncoding::kFloat64:
      return float_text(as<double>(value));
    case MdsEncoding::kNumberText:
      return number_text(value);
    case MdsEncoding::kJson:
      return json_value(value);
    default:
      if (!is_utf8(value)) return corrupt("it is not UTF-8");
      return json_string(value);
  }
}

// The object of the column "json" without the brace that ends it.
struct OpenObject {
  std::string text = "{";
  std::set<std::string> names;
};

Result<OpenObject> open_object(std::string_view value) {
  TopLevel found;
  if (auto read = read_json(value, found, kMaxDepthOfValue); !read) {
    return corrupt("its JSON " + read.error().message());
  }
  if (!found.is_object) return corrupt("its JSON is no object");
  const std::string_view text = without_byte_order_mark(value);
  OpenObject object;
  object.text = text.substr(0, text.rfind('}'));
  object.names = std::move(found.names);
  return object;
}

Error of_column(Error error, const MdsColumn& column) {
  return std::move(error).with_context("column '" + column.name + "'");
}

}  // namespace

bool has_mds_json(std::span<const MdsColumn> columns) {
  return std::ranges::any_of(columns, is_of_json);
}

Result<std::string> mds_json(std::span<const MdsColumn> columns,
                             std::span<const std::string_view> values) {
  OpenObject object;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].use() != MdsUse::kObject) continue;
    auto opened = open_object(values[i]);
    if (!opened) return of_column(std::move(opened).error(), columns[i]);
    object = *std::move(opened);
  }
  bool first = object.names.empty();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].use() != MdsUse::kMember) continue;
    if (object.names.contains(columns[i].name)) {
      return corrupt("the column 'json' has a member '" + columns[i].name +
                     "', and there is a column of this name; rename one");
    }
    auto text = value_text(columns[i], values[i]);
    if (!text) return of_column(std::move(text).error(), columns[i]);
    object.text +=
        (std::exchange(first, false) ? "" : ", ") + json_string(columns[i].name) + ": " + *text;
  }
  if (!has_mds_json(columns)) return std::string();
  return object.text + "}";
}

Result<std::string> read_mds_json(const ByteSource& source, std::span<const MdsColumn> columns,
                                  std::span<const MdsValue> values) {
  std::vector<std::string> bytes(values.size());
  std::vector<std::string_view> views;
  views.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_of_json(columns[i])) {
      bytes[i].resize(static_cast<std::size_t>(values[i].bytes));
      ISOCOST_ASSIGN(const std::size_t read,
                     source.read_at(values[i].offset, std::as_writable_bytes(std::span(bytes[i]))));
      bytes[i].resize(read);
    }
    views.emplace_back(bytes[i]);
  }
  return mds_json(columns, views);
}

Result<std::string> make_mds_json(const ByteSource& shard, const MdsValue& range) {
  ISOCOST_ASSIGN(const std::vector<MdsColumn> columns, mds_header_columns(shard));
  ISOCOST_ASSIGN(const std::vector<MdsValue> values, mds_values(shard, range, columns));
  return read_mds_json(shard, columns, values);
}

}  // namespace isocost
