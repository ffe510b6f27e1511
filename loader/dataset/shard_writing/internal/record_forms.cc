#include "loader/dataset/shard_writing/internal/record_forms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "decode/shape/sample_shape.h"
#include "loader/dataset/shard_writing/internal/conversation_media.h"
#include "loader/dataset/shard_writing/internal/json_records.h"
#include "loader/dataset/shard_writing/internal/json_value.h"
#include "loader/dataset/shard_writing/internal/media_reference.h"

namespace isocost {
namespace {

using Json = nlohmann::ordered_json;

// A record's own keys, from which the sample's name and media are read.
constexpr std::array<std::string_view, 8> kOwnKeys = {"id",    "file_name", "image", "images",
                                                      "video", "videos",    "audio", "audios"};
constexpr std::span<const std::string_view> kMediaKeys = std::span(kOwnKeys).subspan(1);

Error manifest_error(std::string_view what) {
  return corrupt_record(
      std::string(what) +
      R"(; a line reads {"key": "a/b", "parts": [{"name": "jpg", "file": "x.jpg"}]})");
}

bool has(const Json& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  return found != object.end() && !found->is_null();
}

// Returns the member if it is a non-empty string.
std::optional<std::string> string_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

// Returns a key made of a number, padded so that the order of keys is that of the records.
std::string numbered_key(std::uint64_t number) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%09llu", static_cast<unsigned long long>(number));
  return digits.data();
}

// Returns the "id" as a key, or nothing if there is none.
Result<std::optional<std::string>> id_of(const Json& object) {
  if (!has(object, "id")) return std::optional<std::string>();
  const Json& id = object.at("id");
  if (id.is_string()) return std::optional(id.get<std::string>());
  const bool is_infinite = id.is_number_float() && !std::isfinite(id.get<double>());
  if (id.is_number() && !is_infinite) return std::optional(id.dump());
  return corrupt_record("the \"id\" is neither a string nor a number");
}

Status add_media(InputSample& sample, const std::vector<MediaReference>& media,
                 const std::filesystem::path& root) {
  for (const MediaReference& reference : media) {
    ISOCOST_ASSIGN(InputPart part, media_part(reference, sample.parts.size(), root));
    sample.parts.push_back(std::move(part));
  }
  return {};
}

// Returns whether the sample is one sound, whose transcript may be empty.
bool is_sound(const InputSample& sample) {
  if (sample.parts.size() != 1) return false;
  return modality_from_name(sample.parts[0].name) == Modality::kAudio;
}

}  // namespace

Result<InputSample> RecordForms::read(std::string record, std::uint64_t number) {
  auto parsed = parse_json_value(record, kMaxDepth);
  if (!parsed) return corrupt_record("the record " + parsed.error().message());
  Json object = *std::move(parsed);
  if (!object.is_object()) {
    return corrupt_record(
        "not a JSON object; one is expected on each line, or as an array's element");
  }
  if (!form_) form_ = detect(object);
  if (!form_) {
    return corrupt_record(
        "none of the forms that are read: \"key\" and \"parts\" (a manifest); \"messages\" or "
        "\"conversations\"; \"file_name\" or \"image\" with \"text\" or \"caption\"");
  }
  const Form form = *form_;
  const bool is_manifest = form == Form::kManifest;
  std::optional<std::string> id;
  if (!is_manifest && !number_keys_) {
    ISOCOST_ASSIGN(id, id_of(object));
  }
  ISOCOST_ASSIGN(InputSample read, sample(form, std::move(object), std::move(record)));
  if (id) {
    read.key = *std::move(id);
    read.key_is_id = true;
  } else if (!is_manifest || number_keys_) {
    read.key = numbered_key(number);
  }
  return read;
}

Result<InputSample> RecordForms::sample(Form form, Json object, std::string record) const {
  switch (form) {
    case Form::kManifest:
      return manifest(object);
    case Form::kConversation:
      return conversation(object, std::move(record));
    case Form::kCaption:
      return caption(std::move(object));
  }
  return Error(ErrorCode::kInternal, "no such form");
}

std::optional<RecordForms::Form> RecordForms::detect(const Json& object) {
  if (has(object, "parts")) return Form::kManifest;
  if (has(object, "messages") || has(object, "conversations")) return Form::kConversation;
  const bool captioned = has(object, "text") || has(object, "caption");
  const bool names_media =
      std::any_of(kMediaKeys.begin(), kMediaKeys.end(),
                  [&](std::string_view name) { return medium_member(object, name) != nullptr; });
  if (medium_member(object, "file_name") != nullptr || (names_media && captioned)) {
    return Form::kCaption;
  }
  if (has(object, "key")) return Form::kManifest;
  return std::nullopt;
}

Result<InputSample> RecordForms::manifest(const Json& object) const {
  InputSample sample;
  for (const auto& [name, value] : object.items()) {
    if (name != "key" && name != "parts") {
      return manifest_error("unknown member '" + printable_utf8(name) + "'");
    }
  }
  const auto key = string_member(object, "key");
  const auto parts = object.find("parts");
  if (!key) return manifest_error("no \"key\"");
  if (parts == object.end() || !parts->is_array() || parts->empty()) {
    return manifest_error("no \"parts\"");
  }
  sample.key = *key;
  for (const Json& entry : *parts) {
    ISOCOST_ASSIGN(InputPart part, manifest_part(entry));
    sample.parts.push_back(std::move(part));
  }
  return sample;
}

Result<InputPart> RecordForms::manifest_part(const Json& part) const {
  if (!part.is_object()) return manifest_error("a part is not an object");
  const auto name = string_member(part, "name");
  if (!name) return manifest_error("a part has no \"name\"");
  if (part.size() != 2) {
    return manifest_error("part " + printable_utf8(*name) +
                          " needs a name and one of \"file\", \"text\", \"json\"");
  }
  if (const auto file = string_member(part, "file")) {
    ISOCOST_ASSIGN(std::filesystem::path path, file_of_part(*file, root_));
    return InputPart{*name, std::move(path)};
  }
  if (auto text = string_member(part, "text")) return InputPart{*name, *std::move(text)};
  if (const auto found = part.find("json"); found != part.end()) {
    return InputPart{*name, json_text(*found)};
  }
  return manifest_error("part " + printable_utf8(*name) + R"( has none of "file", "text", "json")");
}

// Makes a sample of a conversation. The JSON part is the record byte for byte, so that numbers and
// repeated keys are kept.
Result<InputSample> RecordForms::conversation(const Json& object, std::string record) const {
  InputSample sample;
  sample.own_keys = kOwnKeys;
  ISOCOST_ASSIGN(ConversationMedia found, conversation_media(object));
  sample.unread_content = std::move(found.unread);
  sample.needs_model = !string_member(object, "text");
  ISOCOST_TRY(add_media(sample, found.media, root_));
  constexpr std::string_view kSpaces = " \t\r";
  record.erase(record.find_last_not_of(kSpaces) + 1);
  record.erase(0, record.find_first_not_of(kSpaces));
  sample.parts.push_back({"json", std::move(record)});
  return sample;
}

// Makes a sample of media with a caption. The caption becomes a part of its own, and leaves the
// JSON, whose "text" would be read a second time.
Result<InputSample> RecordForms::caption(Json object) const {
  InputSample sample;
  sample.own_keys = kOwnKeys;
  const char* name = has(object, "text") ? "text" : "caption";
  const auto text = string_member(object, name);
  if (!text) return corrupt_record("no string \"text\" or \"caption\"");
  ISOCOST_ASSIGN(std::vector<MediaReference> media, listed_media(object));
  if (medium_member(object, "file_name") != nullptr) {
    const auto file = string_member(object, "file_name");
    if (!file) return corrupt_record("the \"file_name\" is no string");
    if (!media.empty()) return corrupt_record("names files in \"file_name\" and beside it");
    media.push_back({std::nullopt, *file});
  }
  if (media.empty()) return corrupt_record("no \"file_name\" or \"image\" beside the caption");
  ISOCOST_TRY(add_media(sample, media, root_));
  if (text->empty() && !is_sound(sample)) {
    return corrupt_record("the caption has zero bytes, which says something of sounds alone");
  }
  sample.parts.push_back({"txt", *text});
  object.erase(name);
  if (name == std::string_view("caption")) object.erase("text");  // the member is null
  const bool more = std::any_of(object.items().begin(), object.items().end(), [](const auto& item) {
    return std::find(kOwnKeys.begin(), kOwnKeys.end(), item.key()) == kOwnKeys.end();
  });
  if (more) sample.parts.push_back({"json", json_text(object)});
  return sample;
}

}  // namespace isocost
