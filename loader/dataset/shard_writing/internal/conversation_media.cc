#include "loader/dataset/shard_writing/internal/conversation_media.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/counted.h"
#include "base/utf8.h"
#include "loader/dataset/shard_writing/internal/json_records.h"

namespace isocost {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kMedia = {Modality::kImage, Modality::kVideo, Modality::kAudio};

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kMost = 40;
  return "'" + printable_utf8(name.substr(0, kMost)) + "'";
}

// Returns the member unless it is missing or null.
const Json* member(const Json& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// Returns whether a value that could name a medium names none.
// NOLINTNEXTLINE(misc-no-recursion): records have a limited depth.
bool names_no_medium(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  if (!value.is_array() && !value.is_object()) return value.is_null();
  return std::ranges::all_of(value, names_no_medium);
}

// Returns the path that a value names: a string, or an object with "path" or "url".
Result<std::string> path_of(const Json& value, std::string_view name) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) {
    if (const Json* data = member(value, "data"); data != nullptr && data->is_string()) {
      return corrupt_record(in_quotes(name) +
                            " holds its bytes as base64: write them to a file and name that");
    }
    for (const char* key : {"path", "url"}) {
      const Json* found = member(value, key);
      if (found != nullptr && found->is_string()) return found->get<std::string>();
    }
  }
  if (value.is_array()) {
    return corrupt_record(in_quotes(name) + " is a list in a content part: name one file there");
  }
  return corrupt_record(in_quotes(name) + " must be a path or a list of paths");
}

// Returns the modality of a content part's type, such as "image", "image_url" or "input_audio".
std::optional<Modality> modality_of_type(std::string_view type) {
  if (type.starts_with("input_")) type.remove_prefix(6);
  if (type.ends_with("_url")) type.remove_suffix(4);
  for (const Modality modality : kMedia) {
    if (type == modality_name(modality)) return modality;
  }
  return std::nullopt;
}

// One place in a conversation where a model sees a medium.
struct Slot {
  Modality modality;
  std::optional<std::string> path;  // nothing: takes the next one of the top-level list
  std::size_t turn = 0;             // from 1
};

// Returns text like "2 <image> placeholders (turns 1 and 3)" for the slots without a path.
std::string described(std::span<const Slot> slots, Modality modality, bool typed) {
  constexpr std::size_t kMostTurns = 5;
  std::size_t count = 0;
  std::vector<std::size_t> turns;
  for (const Slot& slot : slots) {
    if (slot.path || slot.modality != modality) continue;
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
  explicit Conversation(const Json& object) : object_(object) {}

  Result<ConversationMedia> read();

 private:
  Status add_turn(const Json& turn);
  void choose_slots(bool may_be_text);
  Status add_content(const Json& content);
  Status add_part(const Json& part);
  Status add_medium(const Json& part, std::string_view type, Modality modality);
  void add_text(std::string_view text);
  Status check_index(const Json& part, Modality modality) const;
  std::size_t open_slots(Modality modality) const;
  Status match(std::array<std::vector<std::string>, kModalities>& lists);

  const Json& object_;
  std::size_t turn_ = 0;
  std::vector<Slot> slots_;         // slots of typed parts
  std::vector<Slot> placeholders_;  // slots in texts
  bool typed_ = true;               // whether slots_ belong to typed parts, and not to placeholders
  ConversationMedia result_;
};

Result<std::vector<std::string>> listed(const Json& object, Modality modality) {
  const std::string one(modality_name(modality));
  const std::string many = one + "s";
  const Json* found = medium_member(object, one);
  const Json* found_many = medium_member(object, many);
  if (found != nullptr && found_many != nullptr) {
    return corrupt_record("has both '" + one + "' and '" + many +
                          "': name the files in one of them");
  }
  std::vector<std::string> paths;
  const std::string& name = found != nullptr ? one : many;
  if (found == nullptr) found = found_many;
  if (found == nullptr) return paths;
  if (!found->is_array()) {
    ISOCOST_ASSIGN(std::string path, path_of(*found, name));
    paths.push_back(std::move(path));
    return paths;
  }
  for (const Json& entry : *found) {
    if (names_no_medium(entry)) continue;
    if (entry.is_array()) {
      return corrupt_record(in_quotes(name) + " must be a path or a list of paths");
    }
    ISOCOST_ASSIGN(std::string path, path_of(entry, name));
    paths.push_back(std::move(path));
  }
  return paths;
}

Result<ConversationMedia> Conversation::read() {
  const Json* messages = member(object_, "messages");
  const Json* conversations = member(object_, "conversations");
  if (messages != nullptr && conversations != nullptr) {
    return corrupt_record(R"(has both "messages" and "conversations": keep one of them)");
  }
  const Json* turns = messages != nullptr ? messages : conversations;
  if (turns == nullptr) return corrupt_record(R"(no "messages" and no "conversations")");
  if (!turns->is_array() || turns->empty()) {
    return corrupt_record("the conversation is no list of turns");
  }
  for (turn_ = 1; turn_ <= turns->size(); ++turn_) {
    ISOCOST_TRY_CONTEXT(add_turn((*turns)[turn_ - 1]), "turn " + std::to_string(turn_));
  }
  std::array<std::vector<std::string>, kModalities> lists;
  bool any_listed = false;
  for (const Modality modality : kMedia) {
    auto& list = lists[static_cast<std::size_t>(modality)];
    ISOCOST_ASSIGN(list, listed(object_, modality));
    any_listed = any_listed || !list.empty();
  }
  choose_slots(messages != nullptr && !any_listed);
  ISOCOST_TRY(match(lists));
  return std::move(result_);
}

// Chooses the slots of media like the tokenizer when it reads conversations: beside typed media
// parts "<image>" is text, and so it is in "messages" of a record without media.
void Conversation::choose_slots(bool may_be_text) {
  if (!slots_.empty() || may_be_text) return;
  slots_ = std::move(placeholders_);
  typed_ = false;
}

// Gives each slot without a path the next one of its list, and takes all of them.
Status Conversation::match(std::array<std::vector<std::string>, kModalities>& lists) {
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
    std::string path = slot.path ? *std::move(slot.path) : std::move(lists[at][taken[at]++]);
    result_.media.push_back({slot.modality, std::move(path)});
  }
  return {};
}

std::size_t Conversation::open_slots(Modality modality) const {
  return static_cast<std::size_t>(
      std::count_if(slots_.begin(), slots_.end(),
                    [&](const Slot& slot) { return !slot.path && slot.modality == modality; }));
}

Status Conversation::add_turn(const Json& turn) {
  if (!turn.is_object()) return corrupt_record("not an object");
  const Json* role = member(turn, "from");
  if (role == nullptr) role = member(turn, "role");
  if (role == nullptr || !role->is_string()) return corrupt_record(R"(no "from" or "role")");
  const Json* content = member(turn, "value");
  if (content == nullptr) content = member(turn, "content");
  if (content != nullptr) return add_content(*content);
  // A turn that only calls tools has null or no content.
  if (turn.contains("content") || turn.contains("tool_calls")) return {};
  return corrupt_record(R"(no "value" or "content")");
}

Status Conversation::add_content(const Json& content) {
  if (content.is_string()) {
    add_text(content.get_ref<const std::string&>());
    return {};
  }
  if (!content.is_array()) {
    return corrupt_record("the content is neither a string nor a list of parts");
  }
  for (const Json& part : content) {
    if (!part.is_null()) ISOCOST_TRY(add_part(part));
  }
  return {};
}

Status Conversation::add_part(const Json& part) {
  if (part.is_string()) {
    add_text(part.get_ref<const std::string&>());
    return {};
  }
  if (!part.is_object()) return corrupt_record("a content part is no object");
  std::string type;
  if (const Json* given = member(part, "type"); given != nullptr && given->is_string()) {
    type = given->get<std::string>();
  } else {
    // The key of {"image": "a.jpg"} and {"text": "..."} tells the type.
    for (const char* name : {"image", "video", "audio", "image_url"}) {
      if (type.empty() && medium_member(part, name) != nullptr) type = name;
    }
    if (type.empty() && member(part, "text") != nullptr) type = "text";
    if (type.empty()) return corrupt_record(R"(a content part without "type")");
  }
  if (const auto modality = modality_of_type(type)) return add_medium(part, type, *modality);
  if (type != "text" && type != "input_text" && type != "output_text") {
    result_.unread.insert(std::move(type));
    return {};
  }
  const Json* text = member(part, "text");
  if (text == nullptr || !text->is_string()) return corrupt_record(R"(a text part without "text")");
  add_text(text->get_ref<const std::string&>());
  return {};
}

Status Conversation::add_medium(const Json& part, std::string_view type, Modality modality) {
  const std::string name(modality_name(modality));
  std::optional<std::string> path;
  for (const std::string& key : {std::string(type), name, name + "_url", std::string("path"),
                                 std::string("url"), std::string("data")}) {
    const Json* value = medium_member(part, key);
    if (value == nullptr) continue;
    if (key == "data") {
      return corrupt_record(
          "a content part holds its bytes as base64: write them to a file and name "
          "that");
    }
    ISOCOST_ASSIGN(std::string found, path_of(*value, key));
    if (path && *path != found) return corrupt_record("a content part names two files");
    path = std::move(found);
  }
  if (!path) ISOCOST_TRY(check_index(part, modality));
  slots_.push_back({modality, std::move(path), turn_});
  return {};
}

// Checks the number that some data sets give to the entry of the list that a part stands for.
Status Conversation::check_index(const Json& part, Modality modality) const {
  const Json* index = member(part, "index");
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
        placeholders_.push_back({modality, std::nullopt, turn_});
      }
    }
  }
}

}  // namespace

Result<ConversationMedia> conversation_media(const Json& object) {
  return Conversation(object).read();
}

const Json* medium_member(const Json& object, std::string_view name) {
  const Json* found = member(object, name);
  return found == nullptr || names_no_medium(*found) ? nullptr : found;
}

Result<std::vector<MediaReference>> listed_media(const Json& object) {
  std::vector<MediaReference> media;
  for (const Modality modality : kMedia) {
    ISOCOST_ASSIGN(const std::vector<std::string> paths, listed(object, modality));
    for (const std::string& path : paths) media.push_back({modality, path});
  }
  return media;
}

}  // namespace isocost
