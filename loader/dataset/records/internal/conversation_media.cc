#include "loader/dataset/records/internal/conversation_media.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/counted.h"
#include "base/utf8.h"
#include "loader/dataset/records/internal/json_records.h"
#include "loader/dataset/records/internal/json_value.h"
#include "loader/dataset/records/internal/turn_members.h"
#include "loader/dataset/records/internal/turn_roles.h"

namespace isocost {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kMedia = {Modality::kImage, Modality::kVideo, Modality::kAudio};

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kMost = 40;
  return "'" + printable_utf8(name.substr(0, kMost)) + "'";
}

// Returns whether a value that could name a medium names none.
// NOLINTNEXTLINE(misc-no-recursion): records have a limited depth.
bool names_no_medium(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  if (!value.is_array() && !value.is_object()) return value.is_null();
  return std::ranges::all_of(value, names_no_medium);
}

// Returns the string member that names the format of the bytes beside it: "wav", "image/png".
std::string format_beside(const Json& object) {
  for (const char* key : {"format", "media_type", "mime_type", "mimeType"}) {
    const Json* found = json_member(object, key);
    if (found != nullptr && found->is_string()) return found->get<std::string>();
  }
  return "";
}

// Returns the medium whose bytes an object holds as a string in base64; nothing if it holds none.
Result<std::optional<MediaReference>> bytes_of(Json& object) {
  for (const char* key : {"bytes", "data"}) {
    Json* found = medium_member(object, key);
    if (found == nullptr) continue;
    if (!found->is_string()) {
      return corrupt_record("'" + std::string(key) + "' is " + std::string(json_kind(*found)) +
                            ", and no base64: write the bytes as a string in base64");
    }
    MediaReference reference;
    reference.strings = {found};
    reference.is_bytes = true;
    reference.format = format_beside(object);
    return std::optional(std::move(reference));
  }
  return std::optional<MediaReference>();
}

// Returns the medium that a value names or holds: a string, or an object with "path", "url",
// "bytes" or "data".
Result<MediaReference> medium_of(Json& value, std::string_view name) {
  MediaReference reference;
  if (value.is_string()) reference.strings = {&value};
  if (value.is_object()) {
    ISOCOST_ASSIGN(auto held, bytes_of(value));
    if (held) return *std::move(held);
    for (const char* key : {"path", "url"}) {
      Json* found = medium_member(value, key);
      if (reference.strings.empty() && found != nullptr && found->is_string()) {
        reference.strings = {found};
      }
    }
  }
  if (!reference.strings.empty()) return reference;
  if (value.is_array()) {
    return corrupt_record(in_quotes(name) + " is a list in a content part: name one file there");
  }
  return corrupt_record(in_quotes(name) + " must be a path or a list of paths");
}

struct PartType {
  std::string_view name;
  Modality modality;
};

// Types of media parts, in the order of the tokenizer's table.
constexpr std::array kPartTypes = {
    PartType{"image", Modality::kImage},       PartType{"image_url", Modality::kImage},
    PartType{"input_image", Modality::kImage}, PartType{"video", Modality::kVideo},
    PartType{"video_url", Modality::kVideo},   PartType{"audio", Modality::kAudio},
    PartType{"audio_url", Modality::kAudio},   PartType{"input_audio", Modality::kAudio},
};

std::optional<Modality> modality_of_type(std::string_view type) {
  const auto* const found = std::ranges::find(kPartTypes, type, &PartType::name);
  return found == kPartTypes.end() ? std::nullopt : std::optional(found->modality);
}

Error unknown_type(std::string_view type) {
  std::string known = "text";
  for (const PartType& each : kPartTypes) known.append(", ").append(each.name);
  known.append(", thinking");
  return corrupt_record("a content part has the type " + std::string(type) + ", which is none of " +
                        known);
}

// One place in a conversation where a model sees a medium.
struct Slot {
  Modality modality;
  std::optional<MediaReference> medium;  // nothing: takes the next one of the top-level list
  std::size_t turn = 0;                  // from 1
  bool by_assistant = false;
};

// Returns text like "2 <image> placeholders (turns 1 and 3)" for the slots without a path.
std::string described(std::span<const Slot> slots, Modality modality, bool typed) {
  constexpr std::size_t kMostTurns = 5;
  std::size_t count = 0;
  std::vector<std::size_t> turns;
  for (const Slot& slot : slots) {
    if (slot.medium || slot.modality != modality) continue;
    ++count;
    if (turns.empty() || turns.back() != slot.turn) turns.push_back(slot.turn);
  }
  const std::string name(modality_name(modality));
  std::string text = typed ? counted(count, name + " part") + " without a path"
                           : counted(count, "<" + name + "> placeholder");
  if (turns.empty()) return text;
  text += turns.size() == 1 ? " (turn " : " (turns ";
  for (std::size_t i = 0; i < std::min(turns.size(), kMostTurns); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(turns[i]);
  }
  return text + (turns.size() > kMostTurns ? ", ...)" : ")");
}

class Conversation {
 public:
  explicit Conversation(Json& object) : object_(object) {}

  Result<ConversationMedia> read();

 private:
  Status add_turn(Json& turn);
  Status choose_slots(bool may_be_text);
  Status add_content(Json& content);
  Status add_part(Json& part);
  Status add_medium(Json& part, std::string_view type, Modality modality);
  void add_text(std::string_view text);
  Status check_index(const Json& part, Modality modality) const;
  std::size_t open_slots(Modality modality) const;
  Status match(std::array<std::vector<MediaReference>, kModalities>& lists);

  Json& object_;
  std::size_t turn_ = 0;
  bool by_assistant_ = false;       // whether the present turn is one of the assistant
  std::vector<Slot> slots_;         // slots of typed parts
  std::vector<Slot> placeholders_;  // slots in texts
  bool typed_ = true;               // whether slots_ belong to typed parts, and not to placeholders
  ConversationMedia result_;
};

Result<std::vector<MediaReference>> listed(Json& object, Modality modality) {
  const std::string one(modality_name(modality));
  const std::string many = one + "s";
  Json* found = medium_member(object, one);
  Json* found_many = medium_member(object, many);
  if (found != nullptr && found_many != nullptr) {
    return corrupt_record("has both '" + one + "' and '" + many +
                          "': name the files in one of them");
  }
  std::vector<MediaReference> media;
  const std::string& name = found != nullptr ? one : many;
  if (found == nullptr) found = found_many;
  if (found == nullptr) return media;
  const auto add = [&](Json& entry) -> Status {
    ISOCOST_ASSIGN(MediaReference medium, medium_of(entry, name));
    medium.modality = modality;
    media.push_back(std::move(medium));
    return {};
  };
  if (!found->is_array()) {
    ISOCOST_TRY(add(*found));
    return media;
  }
  for (Json& entry : *found) {
    if (names_no_medium(entry)) continue;
    if (entry.is_array()) {
      return corrupt_record(in_quotes(name) + " must be a path or a list of paths");
    }
    ISOCOST_TRY(add(entry));
  }
  return media;
}

Result<ConversationMedia> Conversation::read() {
  Json* messages = json_member(object_, "messages");
  Json* conversations = json_member(object_, "conversations");
  if (messages != nullptr && conversations != nullptr) {
    return corrupt_record(R"(has both "messages" and "conversations": keep one of them)");
  }
  Json* turns = messages != nullptr ? messages : conversations;
  if (turns == nullptr) return corrupt_record(R"(no "messages" and no "conversations")");
  if (!turns->is_array() || turns->empty()) {
    return corrupt_record("the conversation is no list of turns");
  }
  for (turn_ = 1; turn_ <= turns->size(); ++turn_) {
    ISOCOST_TRY_CONTEXT(add_turn((*turns)[turn_ - 1]), "turn " + std::to_string(turn_));
  }
  ISOCOST_TRY(check_system(object_, turns->front()));
  ISOCOST_TRY(check_tools(object_));
  std::array<std::vector<MediaReference>, kModalities> lists;
  bool any_listed = false;
  for (const Modality modality : kMedia) {
    auto& list = lists[static_cast<std::size_t>(modality)];
    ISOCOST_ASSIGN(list, listed(object_, modality));
    any_listed = any_listed || !list.empty();
  }
  ISOCOST_TRY(choose_slots(messages != nullptr && !any_listed));
  ISOCOST_TRY(match(lists));
  return std::move(result_);
}

// Chooses the slots of media like the tokenizer when it reads conversations: beside typed media
// parts "<image>" is text, and so it is in "messages" of a record without media.
Status Conversation::choose_slots(bool may_be_text) {
  if (!slots_.empty() || may_be_text) return {};
  slots_ = std::move(placeholders_);
  typed_ = false;
  const auto wrong = std::ranges::find_if(slots_, &Slot::by_assistant);
  if (wrong == slots_.end()) return {};
  return corrupt_record("turn " + std::to_string(wrong->turn) +
                        ": the assistant's text names a medium by its placeholder, but a model "
                        "reads media and writes text: put it into a user's turn");
}

// Gives each slot without a path the next one of its list, and takes all of them.
Status Conversation::match(std::array<std::vector<MediaReference>, kModalities>& lists) {
  std::string differ;
  std::size_t open = 0;
  std::size_t files = 0;
  for (const Modality modality : kMedia) {
    const std::size_t slots = open_slots(modality);
    const std::size_t listed = lists[static_cast<std::size_t>(modality)].size();
    open += slots;
    files += listed;
    if (slots == listed) continue;
    differ += (differ.empty() ? "" : ", ") + described(slots_, modality, typed_) + " for " +
              counted(listed, std::string(modality_name(modality)) + " file");
  }
  if (!differ.empty()) {
    if (open == files) differ += ": the placeholder must name the kind of its file";
    if (typed_ && !placeholders_.empty()) {
      differ += ": beside typed media parts <" +
                std::string(modality_name(placeholders_.front().modality)) + "> in turn " +
                std::to_string(placeholders_.front().turn) + " is text";
    }
    return corrupt_record(std::move(differ));
  }
  std::array<std::size_t, kModalities> taken{};
  for (Slot& slot : slots_) {
    const auto at = static_cast<std::size_t>(slot.modality);
    MediaReference medium =
        slot.medium ? *std::move(slot.medium) : std::move(lists[at][taken[at]++]);
    medium.modality = slot.modality;
    result_.media.push_back(std::move(medium));
  }
  return {};
}

std::size_t Conversation::open_slots(Modality modality) const {
  return static_cast<std::size_t>(
      std::count_if(slots_.begin(), slots_.end(),
                    [&](const Slot& slot) { return !slot.medium && slot.modality == modality; }));
}

Status Conversation::add_turn(Json& turn) {
  if (!turn.is_object()) return corrupt_record("not an object");
  const Json* given = json_member(turn, "from");
  if (given == nullptr) given = json_member(turn, "role");
  if (given == nullptr || !given->is_string()) return corrupt_record(R"(no "from" or "role")");
  const auto role = turn_role(given->get_ref<const std::string&>());
  if (!role) {
    return corrupt_record("role " + in_quotes(given->get_ref<const std::string&>()) +
                          " is none of " + known_roles());
  }
  by_assistant_ = role->name == "assistant";
  result_.has_assistant = result_.has_assistant || by_assistant_;
  ISOCOST_TRY(check_weights(turn));
  ISOCOST_ASSIGN(const bool has_calls, check_calls(turn));
  Json* content = json_member(turn, "value");
  if (content == nullptr) content = json_member(turn, "content");
  if (content == nullptr) {
    if (has_calls) return {};  // A turn that only calls tools needs no content.
    return corrupt_record(R"(no "value" or "content")");
  }
  const bool is_call = role->calls_functions && holds_calls(*content);
  return is_call ? Status() : add_content(*content);
}

Status Conversation::add_content(Json& content) {
  if (content.is_string()) {
    add_text(content.get_ref<const std::string&>());
    return {};
  }
  if (!content.is_array()) {
    return corrupt_record("the content is neither a string nor a list of parts");
  }
  for (Json& part : content) {
    if (!part.is_null()) ISOCOST_TRY(add_part(part));
  }
  return {};
}

Status Conversation::add_part(Json& part) {
  if (part.is_string()) {
    add_text(part.get_ref<const std::string&>());
    return {};
  }
  if (!part.is_object()) return corrupt_record("a content part is no object");
  std::string type;
  if (const Json* given = json_member(part, "type"); given != nullptr) {
    if (!given->is_string()) return unknown_type(json_text(*given).substr(0, 40));
    type = given->get<std::string>();
  } else {
    // In {"image": "a.jpg"} and {"text": "..."}, the key is the type.
    for (const char* name : {"image", "video", "audio", "image_url"}) {
      if (type.empty() && medium_member(part, name) != nullptr) type = name;
    }
    if (type.empty() && json_member(part, "text") != nullptr) type = "text";
    if (type.empty()) return corrupt_record(R"(a content part without "type")");
  }
  if (const auto modality = modality_of_type(type)) return add_medium(part, type, *modality);
  if (type == "thinking") {
    if (by_assistant_) return check_thoughts(part);
    return corrupt_record(
        "a content part of the type 'thinking' in a turn that is not the assistant's: only the "
        "assistant's thoughts are read");
  }
  if (type != "text" && type != "input_text" && type != "output_text") {
    return unknown_type(in_quotes(type));
  }
  const Json* text = json_member(part, "text");
  if (text == nullptr || !text->is_string()) return corrupt_record(R"(a text part without "text")");
  add_text(text->get_ref<const std::string&>());
  return {};
}

Status Conversation::add_medium(Json& part, std::string_view type, Modality modality) {
  const std::string name(modality_name(modality));
  ISOCOST_ASSIGN(std::optional<MediaReference> medium, bytes_of(part));
  for (const std::string& key : {std::string(type), name, name + "_url", std::string("source"),
                                 std::string("path"), std::string("url")}) {
    Json* value = medium_member(part, key);
    if (value == nullptr || (medium && medium->is_bytes)) continue;
    ISOCOST_ASSIGN(MediaReference found, medium_of(*value, key));
    if (!medium || found.is_bytes) {
      medium = std::move(found);
      continue;
    }
    if (medium->name() != found.name()) return corrupt_record("a content part names two files");
    if (medium->strings.front() != found.strings.front()) {
      medium->strings.push_back(found.strings.front());
    }
  }
  if (!medium) ISOCOST_TRY(check_index(part, modality));
  slots_.push_back({modality, std::move(medium), turn_, by_assistant_});
  return {};
}

// Checks the number that some data sets give to the entry of the list that a part represents.
Status Conversation::check_index(const Json& part, Modality modality) const {
  const Json* index = json_member(part, "index");
  if (index == nullptr || *index == open_slots(modality)) return {};
  return corrupt_record("a content part has the index " + in_quotes(index->dump()) + " where " +
                        std::to_string(open_slots(modality)) +
                        " is expected: list the files in the order of the conversation");
}

void Conversation::add_text(std::string_view text) {
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view rest = text.substr(at + 1);
    for (const Modality modality : kMedia) {
      const std::string_view name = modality_name(modality);
      if (rest.starts_with(name) && rest.substr(name.size()).starts_with('>')) {
        placeholders_.push_back({modality, std::nullopt, turn_, by_assistant_});
      }
    }
  }
}

}  // namespace

Result<ConversationMedia> conversation_media(Json& object) { return Conversation(object).read(); }

const Json* medium_member(const Json& object, std::string_view name) {
  const Json* found = json_member(object, name);
  return found == nullptr || names_no_medium(*found) ? nullptr : found;
}

Json* medium_member(Json& object, std::string_view name) {
  Json* found = json_member(object, name);
  return found == nullptr || names_no_medium(*found) ? nullptr : found;
}

Result<std::vector<MediaReference>> listed_media(Json& object) {
  std::vector<MediaReference> media;
  for (const Modality modality : kMedia) {
    ISOCOST_ASSIGN(std::vector<MediaReference> list, listed(object, modality));
    for (MediaReference& medium : list) media.push_back(std::move(medium));
  }
  return media;
}

}  // namespace isocost
