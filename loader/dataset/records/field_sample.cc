#include "loader/dataset/records/field_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/utf8.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/sniff.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/formats/member_name.h"
#include "loader/dataset/formats/tar_listing.h"
#include "loader/dataset/records/internal/json_value.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxFieldDepth = 64;

bool is_text(std::string_view part) { return modality_from_name(part) == Modality::kText; }
bool is_json(std::string_view part) { return part_extension(part) == "json"; }
// The JSON that is a sample's own, and not a part with another name.
bool is_own_json(std::string_view part) {
  return is_text(part) && format_from_extension(part) == MediaFormat::kJson;
}
bool is_medium(std::string_view part) {
  const auto modality = modality_from_name(part);
  return modality && *modality != Modality::kText;
}

// Returns the value at some keys of a value; null: there is none.
const Json* value_at(const Json& root, std::span<const std::string> keys) {
  const Json* value = &root;
  for (const std::string& key : keys) {
    if (value->is_object()) {
      const auto found = value->find(key);
      if (found == value->end()) return nullptr;
      value = &*found;
    } else if (value->is_array()) {
      std::size_t index = 0;
      const auto read = std::from_chars(key.data(), key.data() + key.size(), index);
      const bool is_index = read.ec == std::errc() && read.ptr == key.data() + key.size();
      if (!is_index || index >= value->size()) return nullptr;
      value = &(*value)[index];
    } else {
      return nullptr;
    }
  }
  return value->is_null() ? nullptr : value;
}

Error lacks(const SampleField& field, std::span<const FieldMember> members) {
  constexpr std::size_t kMostNamed = 10;
  std::string parts;
  for (const FieldMember& member : members.first(std::min(members.size(), kMostNamed))) {
    parts += (parts.empty() ? "" : ", ") + printable_utf8(member.part);
  }
  return corrupt(fmt::format("it has no {}, which {} names; it has {}",
                             field_access_text(field.places), field.name, parts));
}

// Returns the content of a user's turn about the sample's medium, whose place the text may say.
Json content_about_medium(std::string text) {
  constexpr std::array<std::string_view, 3> kPlaceholders = {"<image>", "<video>", "<audio>"};
  const bool says_place = std::ranges::any_of(kPlaceholders, [&](std::string_view placeholder) {
    return text.find(placeholder) != std::string::npos;
  });
  if (says_place) return text;
  return Json::array({{{"type", "image"}}, {{"type", "text"}, {"text", std::move(text)}}});
}

// A text that was found, or the member that is one as it lies.
struct FoundText {
  std::size_t member = 0;
  bool as_it_lies = false;
  std::string text;
};

class FieldReader {
 public:
  FieldReader(const SampleFields& fields, std::span<const FieldMember> members,
              const ByteSource& tar, const FieldLimits& limits)
      : fields_(fields), members_(members), tar_(tar), limits_(limits) {}

  Result<FieldSample> read() &&;

 private:
  bool is_named(std::string_view part) const {
    return fields_.parts.empty() || std::ranges::find(fields_.parts, part) != fields_.parts.end();
  }
  std::optional<std::size_t> member_of(const FieldAccess& place) const;
  std::optional<std::size_t> own_json() const;
  Result<std::string> bytes_of(std::size_t member, std::int64_t most) const;
  Result<const Json*> json_of(std::size_t member);
  // Returns the JSON value of a place; null: the sample has no such place.
  Result<const Json*> json_at(const FieldAccess& place);
  Result<FoundText> find_text(const SampleField& field, bool may_be_list);
  Result<FoundText> text_of_member(std::size_t member, const SampleField& field) const;
  Status find_medium();
  Status find_texts();
  Status make_json();
  void use_members();
  void note_key(const FieldAccess& place);

  const SampleFields& fields_;
  const std::span<const FieldMember> members_;
  const ByteSource& tar_;
  const FieldLimits limits_;
  std::map<std::size_t, Json> parsed_;  // by member
  std::optional<std::size_t> medium_;
  std::optional<std::size_t> text_member_;  // the text as it lies
  std::optional<std::string> text_;
  std::optional<Json> turns_;
  FieldSample result_;
};

std::optional<std::size_t> FieldReader::member_of(const FieldAccess& place) const {
  const auto found = std::ranges::find(members_, place.part, &FieldMember::part);
  if (found == members_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - members_.begin());
}

std::optional<std::size_t> FieldReader::own_json() const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (is_own_json(members_[i].part) && is_named(members_[i].part)) return i;
  }
  return std::nullopt;
}

Result<std::string> FieldReader::bytes_of(std::size_t member, std::int64_t most) const {
  const FieldMember& from = members_[member];
  if (from.bytes > most) {
    return Error(ErrorCode::kResourceExhausted,
                 fmt::format("{}: {} bytes are over the limit of {}", from.part, from.bytes, most));
  }
  std::string bytes(static_cast<std::size_t>(from.bytes), '\0');
  ISOCOST_ASSIGN(const std::size_t read,
                 tar_.read_at(from.offset, std::as_writable_bytes(std::span(bytes))));
  bytes.resize(read);
  return bytes;
}

Result<const Json*> FieldReader::json_of(std::size_t member) {
  const auto before = parsed_.find(member);
  if (before != parsed_.end()) return &before->second;
  ISOCOST_ASSIGN(const std::string bytes, bytes_of(member, limits_.json_bytes));
  auto value = parse_json_value(bytes, kMaxFieldDepth);
  if (!value) {
    const Status readable =
        check_is_text(ByteView(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
                      MediaFormat::kJson);
    const Error& error = readable ? value.error() : readable.error();
    return corrupt(fmt::format("{}: its JSON {}", members_[member].part, error.message()));
  }
  return &parsed_.emplace(member, *std::move(value)).first->second;
}

Result<const Json*> FieldReader::json_at(const FieldAccess& place) {
  const auto member = member_of(place);
  if (!member || !is_json(place.part)) return static_cast<const Json*>(nullptr);
  ISOCOST_ASSIGN(const Json* root, json_of(*member));
  return value_at(*root, place.keys);
}

Result<FoundText> FieldReader::text_of_member(std::size_t member, const SampleField& field) const {
  const std::string& part = members_[member].part;
  if (is_json(part)) {
    return corrupt(fmt::format("{}: {} names all of the JSON; name a member, as in {}[caption]",
                               part, field.name, part));
  }
  if (is_medium(part)) return corrupt(fmt::format("{}: {} names a medium", part, field.name));
  const bool as_it_lies = is_text(part) && &field == &fields_.text;
  if (as_it_lies) return FoundText{member, true, ""};
  ISOCOST_ASSIGN(const std::string bytes, bytes_of(member, limits_.text_bytes));
  if (!is_utf8(bytes)) return corrupt(fmt::format("{}: it is not UTF-8", part));
  return FoundText{member, false, std::string(without_byte_order_mark(bytes))};
}

Result<FoundText> FieldReader::find_text(const SampleField& field, bool may_be_list) {
  for (const FieldAccess& place : field.places) {
    const auto member = member_of(place);
    if (!member) continue;
    if (place.keys.empty()) return text_of_member(*member, field);
    ISOCOST_ASSIGN(const Json* value, json_at(place));
    if (value == nullptr) continue;
    if (may_be_list && value->is_array() && !value->empty()) value = &value->front();
    if (!value->is_string()) {
      return corrupt(fmt::format("{}, which {} names, is no text{}", field_access_text({place}),
                                 field.name, may_be_list ? " and no list of texts" : ""));
    }
    note_key(place);
    return FoundText{*member, false, value->get<std::string>()};
  }
  return lacks(field, members_);
}

// The member of the sample's own JSON that a place leads to is seen by a model.
void FieldReader::note_key(const FieldAccess& place) {
  if (is_own_json(place.part)) result_.seen_keys.push_back(place.keys.front());
}

Status FieldReader::find_medium() {
  if (!fields_.medium.is_given()) return {};
  for (const FieldAccess& place : fields_.medium.places) {
    medium_ = member_of(place);
    if (!medium_) continue;
    if (is_medium(place.part)) return {};
    return corrupt(fmt::format("{}, which {} names, has not the extension of a medium that is read",
                               place.part, fields_.medium.name));
  }
  return lacks(fields_.medium, members_);
}

Status FieldReader::find_texts() {
  if (fields_.text.is_given()) {
    ISOCOST_ASSIGN(FoundText found, find_text(fields_.text, false));
    if (found.as_it_lies) {
      text_member_ = found.member;
    } else {
      text_ = std::move(found.text);
      result_.uses[found.member] = MemberUse::kRead;
    }
  }
  if (!fields_.question.is_given()) return {};
  turns_ = Json::array();
  ISOCOST_ASSIGN(FoundText question, find_text(fields_.question, false));
  result_.uses[question.member] = MemberUse::kRead;
  turns_->push_back(
      {{"role", "user"}, {"content", content_about_medium(std::move(question.text))}});
  if (!fields_.answer.is_given()) return {};
  ISOCOST_ASSIGN(FoundText answer, find_text(fields_.answer, true));
  result_.uses[answer.member] = MemberUse::kRead;
  turns_->push_back({{"role", "assistant"}, {"content", std::move(answer.text)}});
  return {};
}

// Makes the sample's JSON, unless the member may stay as it lies.
Status FieldReader::make_json() {
  const bool says_text = fields_.alone || fields_.text.is_given() || turns_;
  if (!says_text) return {};
  const auto own = own_json();
  Json object = Json::object();
  if (own) {
    ISOCOST_ASSIGN(const Json* value, json_of(*own));
    if (!value->is_object()) return corrupt("json: its JSON is no object");
    object = *value;
  }
  constexpr std::array<std::string_view, 5> kTexts = {"text", "messages", "conversations", "system",
                                                      "tools"};
  const std::size_t dropped = turns_ ? kTexts.size() : 3;  // the others stand beside turns alone
  bool is_made = text_ || turns_;
  for (const std::string_view key : std::span(kTexts).first(dropped)) {
    const auto found = object.find(key);
    if (found == object.end()) continue;
    const bool seen = std::ranges::find(result_.seen_keys, key) != result_.seen_keys.end();
    if (!seen && !found->is_null()) result_.left_out_keys.emplace_back(key);
    object.erase(found);
    is_made = true;
  }
  if (!is_made) return {};
  if (text_) object["text"] = *std::move(text_);
  if (turns_) object["messages"] = *std::move(turns_);
  result_.json = json_text(object);
  if (own) result_.uses[*own] = MemberUse::kRead;
  return {};
}

void FieldReader::use_members() {
  const bool says_text = fields_.alone || fields_.text.is_given() || fields_.question.is_given();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const std::string& part = members_[i].part;
    if (result_.uses[i] == MemberUse::kRead) continue;
    const bool other_text = is_text(part) && !is_own_json(part) && says_text && i != text_member_;
    const bool other_medium = is_medium(part) && fields_.alone && i != medium_;
    if (!is_named(part)) {
      result_.uses[i] = MemberUse::kUnnamed;
    } else if (other_text || other_medium) {
      result_.uses[i] = MemberUse::kBeside;
    }
  }
}

Result<FieldSample> FieldReader::read() && {
  result_.uses.assign(members_.size(), MemberUse::kPart);
  ISOCOST_TRY(find_medium());
  ISOCOST_TRY(find_texts());
  ISOCOST_TRY(make_json());
  use_members();
  return std::move(result_);
}

}  // namespace

Result<FieldSample> read_fields(const SampleFields& fields, std::span<const FieldMember> members,
                                const ByteSource& tar, const FieldLimits& limits) {
  return FieldReader(fields, members, tar, limits).read();
}

Result<std::string> make_field_json(const SampleFields& fields,
                                    const std::shared_ptr<const ByteSource>& tar, RecordBytes bytes,
                                    const FieldLimits& limits) {
  const MemberSource sample(tar, bytes.begin, bytes.end - bytes.begin);
  ISOCOST_ASSIGN(TarListing listing, TarListing::open(sample));
  std::vector<FieldMember> members;
  while (const auto member = listing.next()) {
    if (!member->problem.empty() || is_metadata_member(member->name)) continue;
    const MemberName name = split_member_name(member->name);
    if (!name.part.empty()) {
      members.push_back({std::string(name.part), member->offset, member->size});
    }
  }
  ISOCOST_ASSIGN(FieldSample made, read_fields(fields, members, sample, limits));
  if (made.json) return *std::move(made.json);
  return corrupt("the sample has no such part");
}

}  // namespace isocost
