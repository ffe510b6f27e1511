#include "loader/dataset/records/internal/json_value.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>
#include <utility>
#include <vector>

#include "decode/bytes/json_reader.h"

namespace isocost {
namespace {

using Json = nlohmann::ordered_json;

// Returns a whole number that fits into 64 bits as one, and any other as a double.
Json number_of(std::string_view token) {
  const char* const first = token.data();
  const char* const end = first + token.size();
  const auto whole = [&](auto value) -> Json {
    const auto read = std::from_chars(first, end, value);
    if (read.ec == std::errc() && read.ptr == end) return value;
    return nullptr;
  };
  Json value = token.starts_with('-') ? whole(std::int64_t{}) : whole(std::uint64_t{});
  return value.is_null() ? Json(json_number(token)) : value;
}

class Builder final : public JsonEvents {
 public:
  Status null() override { return add(nullptr); }
  Status boolean(bool value) override { return add(value); }
  Status number(std::string_view token) override { return add(number_of(token)); }
  Status string(std::string& value) override { return add(std::move(value)); }
  Status key(std::string& name) override;
  Status begin_object() override { return begin(Json::object()); }
  Status begin_array() override { return begin(Json::array()); }
  Status end_object() override { return end(); }
  Status end_array() override { return end(); }

  Json take() && { return std::move(root_); }

 private:
  // The value that is next: the root, an element, or the member of the last key.
  Json& place();
  Status add(Json value) {
    place() = std::move(value);
    return {};
  }
  Status begin(Json value);
  Status end() {
    open_.pop_back();
    return {};
  }

  Json root_;
  std::vector<Json*> open_;  // an object or array does not move while a later one is open in it
  Json* member_ = nullptr;
};

Json& Builder::place() {
  if (open_.empty()) return root_;
  if (open_.back()->is_object()) return *member_;
  return open_.back()->emplace_back();
}

Status Builder::begin(Json value) {
  Json& begun = place();
  begun = std::move(value);
  open_.push_back(&begun);
  return {};
}

Status Builder::key(std::string& name) {
  Json& object = *open_.back();
  if (object.size() == kMaxJsonMembers) {
    return Error(ErrorCode::kCorrupt,
                 "has an object of more than " + std::to_string(kMaxJsonMembers) + " members");
  }
  member_ = &object[std::move(name)];
  return {};
}

void append(std::string& to, const Json& value) {
  const char* separator = "";
  if (value.is_object()) {
    to += '{';
    for (const auto& [name, member] : value.items()) {
      to += std::exchange(separator, ",") + Json(name).dump() + ":";
      append(to, member);
    }
    to += '}';
  } else if (value.is_array()) {
    to += '[';
    for (const Json& element : value) {
      to += std::exchange(separator, ",");
      append(to, element);
    }
    to += ']';
  } else if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const auto number = value.get<double>();
    to += std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  } else {
    to += value.dump();
  }
}

}  // namespace

Result<Json> parse_json_value(std::string_view text, std::size_t max_depth) {
  Builder builder;
  ISOCOST_TRY(read_json(text, builder, max_depth));
  return std::move(builder).take();
}

// NOLINTNEXTLINE(misc-no-recursion): parse_json_value limits the depth.
std::string json_text(const Json& value) {
  std::string text;
  append(text, value);
  return text;
}

}  // namespace isocost
