#include "loader/dataset/records/internal/record_forms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/counted.h"
#include "base/utf8.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/records/internal/conversation_media.h"
#include "loader/dataset/records/internal/instruction_turns.h"
#include "loader/dataset/records/internal/json_records.h"
#include "loader/dataset/records/internal/json_value.h"
#include "loader/dataset/records/internal/media_part.h"
#include "loader/dataset/records/internal/media_reference.h"

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

// Adds the parts of media. Returns whether the record held bytes of some, which it now names.
Result<bool> add_media(InputSample& sample, const std::vector<MediaReference>& media,
                       MediaPaths& paths) {
  bool held_bytes = false;
  for (const MediaReference& reference : media) {
    ISOCOST_ASSIGN(InputPart part, media_part(reference, sample.parts.size(), paths));
    held_bytes = held_bytes || std::holds_alternative<std::string>(part.body);
    sample.parts.push_back(std::move(part));
  }
  return held_bytes;
}

// Returns whether the sample is one sound, whose transcript may be empty.
bool is_sound(const InputSample& sample) {
  if (sample.parts.size() != 1) return false;
  return modality_from_name(sample.parts[0].name) == Modality::kAudio;
}

}  // namespace

Result<InputSample> RecordForms::read(std::string record, std::uint64_t number) {
  key_.clear();
  auto parsed = parse_json_value(record, kMaxDepth);
  if (!parsed) return corrupt_record("the record " + parsed.error().message());
  Json object = *std::move(parsed);
  if (!object.is_object()) {
    return corrupt_record(
        "not a JSON object; one is expected on each line, or as an array's element");
  }
  if (form_ == RecordForm::kUnknown) form_ = detect(object);
  if (form_ == RecordForm::kUnknown) {
    return corrupt_record(
        "none of the forms that are read: \"key\" and \"parts\" (a manifest); \"messages\" or "
        "\"conversations\"; \"instruction\" and \"output\", \"query\" and \"response\", "
        "\"question\" and \"answer\" or \"prompt\" and \"completion\"; \"file_name\" or "
        "\"image\" with \"text\" or \"caption\"");
  }
  ISOCOST_ASSIGN(key_, key_of(object, number));
  const bool has_id = form_ != RecordForm::kManifest && !number_keys_ && has(object, "id");
  ISOCOST_ASSIGN(InputSample read, sample(std::move(object), std::move(record)));
  read.key = key_;
  read.key_is_id = has_id;
  return read;
}

// Returns the key of a record; empty for a manifest's line without one, which is refused later.
Result<std::string> RecordForms::key_of(const Json& object, std::uint64_t number) const {
  if (number_keys_) return numbered_key(number);
  if (form_ == RecordForm::kManifest) return string_member(object, "key").value_or("");
  ISOCOST_ASSIGN(const std::optional<std::string> id, id_of(object));
  return id ? *id : numbered_key(number);
}

std::vector<std::string> RecordForms::remarks() const {
  std::vector<std::string> remarks;
  for (const MediaPaths* paths : {&paths_, &manifest_paths_}) {
    for (const auto& [change, count] : paths->changed()) {
      remarks.push_back(counted(count, "path") + " had " + change +
                        " and named a file that is spelt otherwise");
    }
  }
  if (several_answers_ > 0) {
    remarks.push_back(counted(several_answers_, "record") +
                      " had several answers, of which the first was taken");
  }
  if (without_an_assistant_ > 0) {
    remarks.push_back(counted(without_an_assistant_, "conversation") +
                      " without a turn of the assistant: tokenize takes them with --labels all");
  }
  return remarks;
}

Result<InputSample> RecordForms::sample(Json object, std::string record) {
  switch (form_) {
    case RecordForm::kManifest:
      return manifest(object);
    case RecordForm::kConversation:
      return conversation(std::move(object), std::move(record));
    case RecordForm::kInstruction:
      return instruction(std::move(object));
    case RecordForm::kCaption:
      return caption(std::move(object));
    case RecordForm::kUnknown:
      break;
  }
  return Error(ErrorCode::kInternal, "no such form");
}

RecordForms RecordForms::of_indexed(RecordForm form) {
  RecordForms forms({}, /*number_keys=*/true, form);
  forms.paths_ = MediaPaths::without_files();
  forms.manifest_paths_ = MediaPaths::without_files();
  return forms;
}

RecordForm RecordForms::form_of(std::string_view record) {
  const auto object = parse_json_value(record, kMaxDepth);
  return object && object->is_object() ? detect(*object) : RecordForm::kUnknown;
}

RecordForm RecordForms::detect(const Json& object) {
  if (has(object, "parts")) return RecordForm::kManifest;
  if (has(object, "messages") || has(object, "conversations")) return RecordForm::kConversation;
  if (is_instruction(object)) return RecordForm::kInstruction;
  const bool captioned = has(object, "text") || has(object, "caption");
  const bool names_media =
      std::any_of(kMediaKeys.begin(), kMediaKeys.end(),
                  [&](std::string_view name) { return medium_member(object, name) != nullptr; });
  if (medium_member(object, "file_name") != nullptr || (names_media && captioned)) {
    return RecordForm::kCaption;
  }
  if (has(object, "key")) return RecordForm::kManifest;
  return RecordForm::kUnknown;
}

Result<InputSample> RecordForms::manifest(const Json& object) {
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
  for (const Json& entry : *parts) {
    ISOCOST_ASSIGN(InputPart part, manifest_part(entry));
    sample.parts.push_back(std::move(part));
  }
  return sample;
}

Result<InputPart> RecordForms::manifest_part(const Json& part) {
  if (!part.is_object()) return manifest_error("a part is not an object");
  const auto name = string_member(part, "name");
  if (!name) return manifest_error("a part has no \"name\"");
  if (part.size() != 2) {
    return manifest_error("part " + printable_utf8(*name) +
                          " needs a name and one of \"file\", \"text\", \"json\"");
  }
  if (const auto file = string_member(part, "file")) {
    auto path = manifest_paths_.find(*file);
    if (!path) return std::move(path).error().with_context(printable_utf8(*name));
    return InputPart{*name, *std::move(path)};
  }
  if (auto text = string_member(part, "text")) return InputPart{*name, *std::move(text)};
  if (const auto found = part.find("json"); found != part.end()) {
    return InputPart{*name, json_text(*found)};
  }
  return manifest_error("part " + printable_utf8(*name) + R"( has none of "file", "text", "json")");
}

// Makes a sample of a conversation. The JSON part is the record byte for byte, so that numbers and
// repeated keys are kept, unless it holds bytes of media, or no record is given.
Result<InputSample> RecordForms::conversation(Json object, std::string record) {
  ISOCOST_TRY(refuse_preferences(object));
  InputSample sample;
  sample.own_keys = kOwnKeys;
  ISOCOST_ASSIGN(const ConversationMedia found, conversation_media(object));
  sample.needs_model = !string_member(object, "text");
  ISOCOST_ASSIGN(const bool held_bytes, add_media(sample, found.media, paths_));
  const bool is_record = !held_bytes && !record.empty();
  if (!is_record) record = json_text(object);
  constexpr std::string_view kSpaces = " \t\r";
  record.erase(record.find_last_not_of(kSpaces) + 1);
  const auto spaces =
      static_cast<std::int64_t>(std::min(record.find_first_not_of(kSpaces), record.size()));
  record.erase(0, static_cast<std::size_t>(spaces));
  sample.parts.push_back({"json", std::move(record)});
  if (is_record) sample.parts.back().offset_in_record = spaces;
  if (!found.has_assistant) ++without_an_assistant_;
  return sample;
}

// Makes a sample of a question and its answer, which are written as a conversation.
Result<InputSample> RecordForms::instruction(Json object) {
  ISOCOST_ASSIGN(const bool had_several_answers, write_turns(object));
  auto sample = conversation(std::move(object), "");
  if (!sample) return std::move(sample).error().with_context("written as messages");
  if (had_several_answers) ++several_answers_;
  return sample;
}

// Makes a sample of media with a caption. The caption becomes a part of its own, and leaves the
// JSON, whose "text" would be read a second time.
Result<InputSample> RecordForms::caption(Json object) {
  InputSample sample;
  sample.own_keys = kOwnKeys;
  const char* name = has(object, "text") ? "text" : "caption";
  const auto text = string_member(object, name);
  if (!text) return corrupt_record("no string \"text\" or \"caption\"");
  ISOCOST_ASSIGN(std::vector<MediaReference> media, listed_media(object));
  if (medium_member(object, "file_name") != nullptr) {
    Json& file = object.at("file_name");
    if (!file.is_string()) return corrupt_record("the \"file_name\" is no string");
    if (!media.empty()) return corrupt_record("names files in \"file_name\" and beside it");
    media.emplace_back().strings = {&file};
  }
  if (media.empty()) return corrupt_record("no \"file_name\" or \"image\" beside the caption");
  ISOCOST_TRY(add_media(sample, media, paths_));
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
