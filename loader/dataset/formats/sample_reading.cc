#include "loader/dataset/formats/sample_reading.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "base/fingerprint.h"
#include "base/utf8.h"

namespace isocost {
namespace {

bool is_read_as_something_else(std::string_view key) {
  constexpr std::array<std::string_view, 8> kOthers = {
      "id", "text", "messages", "conversations", "system", "tools", "task", "language"};
  return std::ranges::find(kOthers, key) != kOthers.end();
}

}  // namespace

Result<SampleReading> SampleReading::create(const ReadingOptions& options) {
  SampleReading reading;
  ISOCOST_ASSIGN(reading.ignored, IgnoredParts::parse(options.ignore_parts));
  constexpr std::size_t kLongest = 100;
  const std::string& key = options.weight_key;
  if (is_read_as_something_else(key) || key.size() > kLongest || printable_utf8(key) != key) {
    return Error(ErrorCode::kInvalidArgument,
                 "weight_key: '" + printable_utf8(key.substr(0, kLongest)) +
                     "' cannot hold weights; name the member of the samples' JSON that does, or "
                     "none by an empty text");
  }
  reading.weight_key = key;
  if (!options.text.empty()) {
    ISOCOST_ASSIGN(SampleFields fields, fields_of_text(options.text));
    reading.fields = std::make_shared<const SampleFields>(std::move(fields));
  }
  return reading;
}

std::uint64_t SampleReading::hash() const {
  if (weight_key == ReadingOptions{}.weight_key && !fields) return ignored.hash();
  Fingerprint fingerprint;
  fingerprint.add(ignored.hash());
  fingerprint.add(weight_key);
  if (fields) fingerprint.add(fields->hash());
  return fingerprint.value();
}

}  // namespace isocost
