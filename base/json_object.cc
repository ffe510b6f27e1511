#include "base/json_object.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/counted.h"
#include "base/read_file.h"

namespace isocost {
namespace {

using nlohmann::json;

// Returns a key for messages. Keys come from outside, so it is shortened and printable.
std::string shown(std::string_view key) {
  std::string text;
  for (const char c : key.substr(0, 40)) text += c >= ' ' && c < 127 ? c : '?';
  return text;
}

// Finds duplicate keys, whose meaning JSON leaves open, and the key of a number that does not fit
// in a double, which the parser does not report.
struct Watch {
  int max_depth = 0;
  std::vector<std::set<std::string>> keys = {};
  std::string last_key = {};
  std::string twice = {};
  bool too_deep = false;

  bool operator()(int depth, json::parse_event_t event, const json& value) {
    using Event = json::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end && !keys.empty()) keys.pop_back();
    if (event == Event::key) {
      last_key = value.get_ref<const std::string&>();
      if (!keys.empty() && !keys.back().insert(last_key).second) twice = last_key;
    }
    if (depth > max_depth) too_deep = true;
    return true;
  }
};

Error corrupt(const JsonFormat& format, const std::string& what) {
  return {ErrorCode::kCorrupt, std::string(format.name) + ": " + what};
}

Result<json> parse_strictly(std::string_view text, const JsonFormat& format) {
  if (text.size() > format.max_bytes) {
    return corrupt(format, "larger than " + std::to_string(format.max_bytes >> 10) +
                               " KiB, so not a " + format.name);
  }
  Watch watch{.max_depth = format.max_depth};
  json document;
  try {
    document = json::parse(text, [&watch](int depth, json::parse_event_t event, json& value) {
      return watch(depth, event, value);
    });
  } catch (const json::exception& error) {
    std::string after = watch.last_key.empty() ? "" : "after '" + shown(watch.last_key) + "': ";
    // Leaves out the library's name of the error: "[json.exception.parse_error.101] ".
    const std::string_view what = error.what();
    const std::size_t name = what.find("] ");
    return corrupt(format, after.append(name == what.npos ? what : what.substr(name + 2)));
  }
  if (watch.too_deep) return corrupt(format, "nested too deeply");
  if (!watch.twice.empty()) return corrupt(format, "'" + shown(watch.twice) + "' is given twice");
  if (!document.is_object()) return corrupt(format, "not a JSON object");
  return document;
}

const json& as_json(const void* object) { return *static_cast<const json*>(object); }

}  // namespace

struct JsonObject::Document {
  JsonFormat format;
  json root;
};

Result<JsonObject> JsonObject::parse(std::string_view text, const JsonFormat& format) {
  ISOCOST_ASSIGN(json root, parse_strictly(text, format));
  auto document = std::make_shared<const Document>(Document{format, std::move(root)});
  const void* object = &document->root;
  return JsonObject(std::move(document), object, "");
}

std::string quoted_json(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

Error error_of_file(const Error& error, const std::filesystem::path& file) {
  const bool theirs =
      error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kUnsupported;
  const ErrorCode code = theirs ? ErrorCode::kInvalidArgument : error.code();
  return Error(code, error.message(), error.where()).with_context(file.string());
}

Result<JsonObject> JsonObject::load(const std::filesystem::path& file, const JsonFormat& format) {
  ISOCOST_ASSIGN(const std::string text, read_file(format.name, file, format.max_bytes));
  Result<JsonObject> object = parse(text, format);
  if (!object) return error_of_file(std::move(object).error(), file);
  return object;
}

Error JsonObject::wrong(std::string_view key, const std::string& what) const {
  return corrupt(document_->format, "'" + path_ + shown(key) + "' " + what);
}

Status JsonObject::only_keys(std::span<const std::string_view> known) const {
  for (const auto& [key, value] : as_json(object_).items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return wrong(key, "is not a known key");
    }
  }
  return {};
}

bool JsonObject::has(std::string_view key) const {
  return as_json(object_).contains(std::string(key));
}

Result<std::string> JsonObject::text(std::string_view key) const {
  if (!has(key)) return wrong(key, "is missing");
  const json& value = as_json(object_).at(std::string(key));
  if (!value.is_string()) return wrong(key, "must be a string");
  return value.get<std::string>();
}

Result<std::string> JsonObject::optional_text(std::string_view key) const {
  if (!has(key)) return std::string();
  return text(key);
}

Result<std::int64_t> JsonObject::whole(std::string_view key, std::int64_t least,
                                       std::int64_t most) const {
  if (!has(key)) return wrong(key, "is missing");
  const json& value = as_json(object_).at(std::string(key));
  if (!value.is_number_integer()) return wrong(key, "must be an integer");
  const bool too_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most);
  if (too_large || value.get<std::int64_t>() < least) {
    return wrong(key, "must be between " + std::to_string(least) + " and " + std::to_string(most));
  }
  return value.get<std::int64_t>();
}

Result<double> JsonObject::amount(std::string_view key) const {
  if (!has(key)) return wrong(key, "is missing");
  const json& value = as_json(object_).at(std::string(key));
  if (!value.is_number()) return wrong(key, "must be a number");
  const auto number = value.get<double>();
  if (!std::isfinite(number)) return wrong(key, "must be finite");
  if (number < 0) return wrong(key, "must not be negative");
  return number;
}

Result<bool> JsonObject::flag(std::string_view key) const {
  if (!has(key)) return wrong(key, "is missing");
  const json& value = as_json(object_).at(std::string(key));
  if (!value.is_boolean()) return wrong(key, "must be true or false");
  return value.get<bool>();
}

Result<JsonObject> JsonObject::object(std::string_view key) const {
  if (!has(key)) return wrong(key, "is missing");
  const json& value = as_json(object_).at(std::string(key));
  if (!value.is_object()) return wrong(key, "must be an object");
  return JsonObject(document_, &value, path_ + shown(key) + ".");
}

Result<std::vector<std::int64_t>> JsonObject::wholes(std::string_view key, std::size_t most,
                                                     std::int64_t least,
                                                     std::int64_t greatest) const {
  if (!has(key)) return wrong(key, "is missing");
  const json& value = as_json(object_).at(std::string(key));
  if (!value.is_array()) return wrong(key, "must be an array");
  if (value.size() > most) return wrong(key, "has more than " + counted(most, "entry"));
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < value.size(); ++i) {
    // Unsigned integers beyond int64 would become negative.
    const bool fits = value[i].is_number_integer() &&
                      (!value[i].is_number_unsigned() ||
                       value[i].get<std::uint64_t>() <= static_cast<std::uint64_t>(greatest)) &&
                      value[i].get<std::int64_t>() >= least &&
                      value[i].get<std::int64_t>() <= greatest;
    if (!fits) {
      return wrong(std::string(key) + "." + std::to_string(i), "must be an integer between " +
                                                                   std::to_string(least) + " and " +
                                                                   std::to_string(greatest));
    }
    numbers.push_back(value[i].get<std::int64_t>());
  }
  return numbers;
}

Result<std::vector<double>> JsonObject::amounts(std::string_view key, std::size_t most) const {
  if (!has(key)) return wrong(key, "is missing");
  const json& value = as_json(object_).at(std::string(key));
  if (!value.is_array()) return wrong(key, "must be an array");
  if (value.size() > most) return wrong(key, "has more than " + counted(most, "entry"));
  std::vector<double> numbers;
  numbers.reserve(value.size());
  for (const json& entry : value) {
    const double number = entry.is_number() ? entry.get<double>() : -1;
    if (!std::isfinite(number) || number < 0) {
      return wrong(std::string(key) + "." + std::to_string(numbers.size()),
                   "must be a finite number that is not negative");
    }
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::vector<std::string>> JsonObject::text_list(std::string_view key,
                                                       std::size_t most) const {
  if (!has(key)) return wrong(key, "is missing");
  const json& value = as_json(object_).at(std::string(key));
  if (!value.is_array()) return wrong(key, "must be an array");
  if (value.size() > most) return wrong(key, "has more than " + counted(most, "entry"));
  std::vector<std::string> texts;
  texts.reserve(value.size());
  for (const json& entry : value) {
    if (!entry.is_string()) {
      return wrong(std::string(key) + "." + std::to_string(texts.size()), "must be a string");
    }
    texts.push_back(entry.get<std::string>());
  }
  return texts;
}

Result<std::vector<JsonObject>> JsonObject::objects(std::string_view key, std::size_t most) const {
  if (!has(key)) return wrong(key, "is missing");
  const json& value = as_json(object_).at(std::string(key));
  if (!value.is_array()) return wrong(key, "must be an array");
  if (value.size() > most) return wrong(key, "has more than " + counted(most, "entry"));
  std::vector<JsonObject> objects;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = std::string(key) + "." + std::to_string(i);
    if (!value[i].is_object()) return wrong(at, "must be an object");
    objects.push_back(JsonObject(document_, &value[i], path_ + at + "."));
  }
  return objects;
}

Result<std::vector<std::pair<std::string, std::string>>> JsonObject::texts(
    std::string_view key) const {
  ISOCOST_ASSIGN(const JsonObject of, object(key));
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, value] : as_json(of.object_).items()) {
    if (!value.is_string()) return of.wrong(name, "must be a string");
    texts.emplace_back(name, value.get<std::string>());
  }
  return texts;
}

Status JsonObject::check_kind() const {
  const json& object = as_json(object_);
  const auto kind = object.find("kind");
  if (kind == object.end() || !kind->is_string()) return {};
  const auto& name = kind->get_ref<const std::string&>();
  if (name == document_->format.name) return {};
  return Error(ErrorCode::kUnsupported,
               "this is a " + shown(name) + ", not a " + document_->format.name);
}

Status JsonObject::check_version(std::int64_t supported) const {
  ISOCOST_TRY(check_kind());
  if (!has("version")) return wrong("version", "is missing");
  const json& value = as_json(object_).at("version");
  if (!value.is_number_integer()) return wrong("version", "must be an integer");
  if (value == supported) return {};
  const char* remedy = document_->format.remedy;
  return Error(ErrorCode::kUnsupported, std::string(document_->format.name) + ": 'version' is " +
                                            value.dump() + "; this program reads version " +
                                            std::to_string(supported) +
                                            (*remedy == '\0' ? "" : ": ") + remedy);
}

}  // namespace isocost
