// The first line says where a text stands; what follows is a tar, and its JSON.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "loader/dataset/formats/sample_fields.h"
#include "loader/dataset/records/field_sample.h"

namespace {

constexpr isocost::FieldLimits kLimits{std::int64_t{1} << 20, std::int64_t{1} << 20};

void read(const isocost::SampleFields& fields, std::string_view bytes) {
  const auto source =
      std::make_shared<const isocost::MemoryByteSource>(std::as_bytes(std::span(bytes)));
  const auto size = static_cast<std::int64_t>(bytes.size());
  static_cast<void>(isocost::make_field_json(fields, source, {0, size}, kLimits).has_value());
  const std::vector<isocost::FieldMember> members = {
      {"json", 0, size}, {"txt", 0, size}, {"jpg", 0, size}};
  const auto sample = isocost::read_fields(fields, members, *source, kLimits);
  if (sample && sample->uses.size() != members.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return 0;
  const auto fields = isocost::fields_of_text(text.substr(0, end));
  if (!fields) return 0;
  const std::string_view rest = text.substr(end + 1);
  read(*fields, rest);
  isocost::SampleFields turns;
  turns.question = fields->text;
  turns.answer = fields->text;
  turns.alone = true;
  read(turns, rest);
  return 0;
}
