#include "loader/dataset/formats/sample_fields.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "base/fingerprint.h"
#include "base/utf8.h"

namespace isocost {
namespace {

void add(Fingerprint& fingerprint, const SampleField& field) {
  fingerprint.add(field.places.size());
  for (const FieldAccess& place : field.places) {
    fingerprint.add(place.part);
    fingerprint.add(place.keys.size());
    for (const std::string& key : place.keys) fingerprint.add(key);
  }
}

// Returns whether a place is text that has not the form of one, which Energon takes for a name.
bool is_odd(const FieldAccess& place) {
  return place.part.find_first_of("[],") != std::string::npos;
}

}  // namespace

std::uint64_t SampleFields::hash() const {
  Fingerprint fingerprint;
  for (const SampleField* field : {&text, &question, &answer, &medium}) add(fingerprint, *field);
  fingerprint.add(parts.size());
  for (const std::string& part : parts) fingerprint.add(part);
  fingerprint.add(alone ? 1 : 0);
  return fingerprint.value();
}

Result<SampleFields> fields_of_text(std::string_view text) {
  constexpr std::size_t kLongest = 1000;
  const auto invalid = [&](std::string_view problem) {
    return Error(
        ErrorCode::kInvalidArgument,
        fmt::format("text: '{}' {}; write where a sample's text stands, as in txt, json[caption] "
                    "or json[captions][0],txt",
                    printable_utf8(text.substr(0, kLongest)), problem));
  };
  if (text.size() > kLongest) return invalid("is too long");
  auto places = parse_field_access(text);
  if (!places) return invalid(places.error().message());
  for (const FieldAccess& place : *places) {
    if (is_odd(place)) return invalid("is no place in a sample");
    if (place.part.empty()) return invalid("names no part");
    if (place.part == "json" && place.keys.empty()) return invalid("names no member of the JSON");
  }
  SampleFields fields;
  fields.text = {"text", *std::move(places)};
  return fields;
}

}  // namespace isocost
