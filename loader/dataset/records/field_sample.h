#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "loader/dataset/formats/sample_fields.h"
#include "loader/dataset/records/record_range.h"

namespace isocost {

/// A member of a sample in a plain tar.
struct FieldMember {
  std::string part;  ///< The part name, such as "jpg".
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// The use of a member of a sample whose fields are said.
enum class MemberUse : std::uint8_t {
  kPart,     ///< It is a part, as it lies.
  kRead,     ///< Its text was taken out of it.
  kBeside,   ///< A medium or a text beside those that are said.
  kUnnamed,  ///< It is not among the parts that are read.
};

/// The parts and the JSON that the fields of a sample make of its members.
struct FieldSample {
  std::vector<MemberUse> uses;  ///< For each member.
  /// The sample's JSON, which was made; nothing: the member "json", if there is one, is a part.
  std::optional<std::string> json;
  /// Members of the JSON from which a text was taken, and those that are left out beside it.
  std::vector<std::string> seen_keys;
  std::vector<std::string> left_out_keys;
};

/// Limits of the members that are read.
struct FieldLimits {
  std::int64_t json_bytes = 0;
  std::int64_t text_bytes = 0;
};

/// Finds the fields of a sample among its members. Made JSON is the sample's own, without the
/// members `text`, `messages` and `conversations`, and with the text or the two turns that the
/// fields say. Errors: kCorrupt if the sample lacks a field, or has no text there;
/// kResourceExhausted over the limits; kIo.
Result<FieldSample> read_fields(const SampleFields& fields, std::span<const FieldMember> members,
                                const ByteSource& tar, const FieldLimits& limits);

/// Makes the JSON of the sample whose members lie in `bytes` of a plain tar again. Errors: as
/// above; kCorrupt if they make none.
Result<std::string> make_field_json(const SampleFields& fields,
                                    const std::shared_ptr<const ByteSource>& tar, RecordBytes bytes,
                                    const FieldLimits& limits);

}  // namespace isocost
