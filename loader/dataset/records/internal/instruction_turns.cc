#include "loader/dataset/records/internal/instruction_turns.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sample_part.h"
#include "base/utf8.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/records/internal/conversation_media.h"
#include "loader/dataset/records/internal/json_records.h"
#include "loader/dataset/records/internal/turn_members.h"
#include "loader/dataset/records/internal/turn_roles.h"

namespace isocost {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::vector<std::string_view>;

constexpr std::array<std::string_view, 5> kAsked = {"instruction", "query", "question", "prompt",
                                                    "problem"};
// Names that ask only if none of the above does. Otherwise they follow it.
constexpr std::array<std::string_view, 3> kInputs = {"input", "inputs", "context"};
constexpr std::array<std::string_view, 8> kAnswers = {
    "output", "response", "answer", "answers", "completion", "target", "targets", "solution"};
constexpr std::array kPlaceholders = {Modality::kImage, Modality::kVideo, Modality::kAudio};

template <typename Candidates>
Names present(const Json& object, const Candidates& candidates) {
  Names names;
  for (const std::string_view name : candidates) {
    if (json_member(object, name) != nullptr) names.push_back(name);
  }
  return names;
}

bool is_preference(const Json& object) {
  return json_member(object, "chosen") != nullptr && json_member(object, "rejected") != nullptr;
}

Json turn_of(std::string_view role, Json content) {
  return Json{{"role", role}, {"content", std::move(content)}};
}

Error wrong_type(std::string_view name, const Json& value, std::string_view wanted) {
  return corrupt_record("'" + std::string(name) + "' is " + std::string(json_kind(value)) + ": " +
                        std::string(wanted));
}

bool is_turn(const Json& value) {
  return value.is_object() &&
         (value.contains("role") || value.contains("from") || value.contains("content"));
}

bool is_list_of_turns(const Json& value) {
  return value.is_array() && !value.empty() && std::ranges::all_of(value, is_turn);
}

bool has_placeholder(const Json& text) {
  return text.is_string() && std::ranges::any_of(kPlaceholders, [&](Modality modality) {
           const std::string tag = "<" + std::string(modality_name(modality)) + ">";
           return text.get_ref<const std::string&>().find(tag) != std::string::npos;
         });
}

bool content_names_media(const Json& content) {
  if (!content.is_array()) return has_placeholder(content);
  return std::ranges::any_of(content, [](const Json& part) {
    const Json* text = part.is_object() ? json_member(part, "text") : &part;
    return text == nullptr || has_placeholder(*text);
  });
}

// Writes the turns of one record.
class Turns {
 public:
  explicit Turns(Json& object) : object_(object) {}

  Status write();
  bool had_several_answers() const { return had_several_answers_; }

 private:
  Result<std::string_view> one_of(const Names& names, std::string_view what) const;
  Status add_history();
  Status add_rounds(std::string_view name, const Json& rounds);
  Status add_round(std::string_view name, const Json& round);
  Status add_question();
  Status add_answer();
  Result<Json> answer_of(std::string_view name, const Json& value);
  void rename_system();
  Status name_file_by_kind();
  Status place_media();
  bool names_media() const;
  void drop(std::string_view name) { dropped_.emplace_back(name); }

  Json& object_;
  Json turns_ = Json::array();
  std::vector<std::string> dropped_;
  bool had_several_answers_ = false;
};

Status Turns::write() {
  ISOCOST_TRY(refuse_preferences(object_));
  ISOCOST_TRY(add_history());
  if (const Json* conversation = json_member(object_, "conversation")) {
    ISOCOST_TRY(add_rounds("conversation", *conversation));
  } else {
    ISOCOST_TRY(add_question());
    ISOCOST_TRY(add_answer());
  }
  for (const std::string& name : dropped_) object_.erase(name);
  rename_system();
  ISOCOST_TRY(name_file_by_kind());
  ISOCOST_TRY(place_media());
  object_["messages"] = std::move(turns_);
  return {};
}

Result<std::string_view> Turns::one_of(const Names& names, std::string_view what) const {
  if (names.size() == 1) return names.front();
  if (names.empty()) return corrupt_record("has no " + std::string(what));
  return corrupt_record("has the " + std::string(what) + " in '" + std::string(names[0]) +
                        "' and in '" + std::string(names[1]) + "': keep one of them");
}

Status Turns::add_history() {
  const Json* history = json_member(object_, "history");
  if (history == nullptr) return {};
  drop("history");
  if (*history == "") return {};
  return add_rounds("history", *history);
}

Status Turns::add_rounds(std::string_view name, const Json& rounds) {
  drop(name);
  if (!rounds.is_array()) return wrong_type(name, rounds, "a list of rounds or turns is needed");
  for (const Json& round : rounds) ISOCOST_TRY(add_round(name, round));
  return {};
}

// Adds a turn; or a question and its answer, as a pair of strings or as members that are called by
// their roles.
Status Turns::add_round(std::string_view name, const Json& round) {
  const auto is_text = [](const Json& value) { return value.is_string(); };
  if (is_turn(round)) {
    turns_.push_back(round);
    return {};
  }
  const bool is_whole = !round.empty() && std::ranges::all_of(round, is_text);
  if (round.is_array() && round.size() == 2 && is_whole) {
    turns_.push_back(turn_of("user", round[0]));
    turns_.push_back(turn_of("assistant", round[1]));
    return {};
  }
  if (round.is_object() && is_whole) {
    for (const auto& [speaker, text] : round.items()) {
      const auto role = turn_role(speaker);
      if (!role) {
        return corrupt_record("'" + std::string(name) + "' has the role '" +
                              printable_utf8(speaker.substr(0, 40)) + "', which is none of " +
                              known_roles());
      }
      turns_.push_back(turn_of(role->name, text));
    }
    return {};
  }
  return corrupt_record("an entry of '" + std::string(name) +
                        "' is neither a question and its answer as two strings nor a turn");
}

Status Turns::add_question() {
  Names asked = present(object_, kAsked);
  Names inputs = present(object_, kInputs);
  if (asked.empty()) std::swap(asked, inputs);
  ISOCOST_ASSIGN(const std::string_view name, one_of(asked, "question"));
  Json question = object_.at(std::string(name));
  drop(name);
  const bool is_list = is_list_of_turns(question);
  if (!is_list && !question.is_string()) {
    return wrong_type(name, question, "a text is needed, or a list of turns");
  }
  std::string text = is_list ? "" : question.get<std::string>();
  for (const std::string_view beside : inputs) {
    const Json& value = object_.at(std::string(beside));
    drop(beside);
    if (!value.is_string()) return wrong_type(beside, value, "a text is needed");
    const auto& more = value.get_ref<const std::string&>();
    if (more.empty()) continue;
    if (is_list) {
      return corrupt_record("has '" + std::string(beside) + "' beside a list of turns in '" +
                            std::string(name) + "'");
    }
    text += (text.empty() ? "" : "\n") + more;
  }
  if (!is_list) {
    turns_.push_back(turn_of("user", std::move(text)));
    return {};
  }
  for (Json& turn : question) {
    const Json* speaker = json_member(turn, "from");
    if (speaker == nullptr) speaker = json_member(turn, "role");
    const auto role = speaker != nullptr && speaker->is_string()
                          ? turn_role(speaker->get_ref<const std::string&>())
                          : std::nullopt;
    const bool is_answer = role && role->name == "assistant";
    if (is_answer && !has_weight(turn)) turn["weight"] = 0;
    turns_.push_back(std::move(turn));
  }
  return {};
}

Status Turns::add_answer() {
  ISOCOST_ASSIGN(const std::string_view name, one_of(present(object_, kAnswers), "answer"));
  const Json& value = object_.at(std::string(name));
  if (is_list_of_turns(value)) {
    for (const Json& turn : value) turns_.push_back(turn);
    drop(name);
    return {};
  }
  ISOCOST_ASSIGN(Json answer, answer_of(name, value));
  turns_.push_back(turn_of("assistant", std::move(answer)));
  // The answers that were not taken stay in the record.
  if (!had_several_answers_) drop(name);
  return {};
}

// Returns the answer in a text, or the first of several: of a list, or of the object with a list
// that SQuAD has. An answer may be an object with its text.
// NOLINTNEXTLINE(misc-no-recursion): records have a limited depth.
Result<Json> Turns::answer_of(std::string_view name, const Json& value) {
  if (value.is_string()) return value;
  if (value.is_object()) {
    for (const char* key : {"text", "answer"}) {
      if (const Json* text = json_member(value, key)) return answer_of(name, *text);
    }
  }
  if (value.is_array() && !value.empty()) {
    had_several_answers_ = had_several_answers_ || value.size() > 1;
    return answer_of(name, value.front());
  }
  if (value.is_array()) return corrupt_record("'" + std::string(name) + "' is an empty list");
  return wrong_type(name, value, "a text is needed, or a list of answers or turns");
}

void Turns::rename_system() {
  const Json* prompt = json_member(object_, "system_prompt");
  if (prompt == nullptr || json_member(object_, "system") != nullptr) return;
  Json text = *prompt;
  object_.erase("system_prompt");
  object_["system"] = std::move(text);
}

// Writes imagefolder's "file_name" as the member that a conversation has for a file of its kind.
Status Turns::name_file_by_kind() {
  const Json* file = medium_member(object_, "file_name");
  if (file == nullptr) return {};
  if (!file->is_string()) return wrong_type("file_name", *file, "a path is needed");
  const auto kind = modality_from_name(part_extension(file->get_ref<const std::string&>()));
  if (!kind || *kind == Modality::kText) {
    return corrupt_record("'file_name' has not the extension of an image, audio or video file");
  }
  const std::string one(modality_name(*kind));
  if (medium_member(object_, one) != nullptr || medium_member(object_, one + "s") != nullptr) {
    return corrupt_record("names files in 'file_name' and beside it");
  }
  Json name = *file;
  object_.erase("file_name");
  object_[one] = std::move(name);
  return {};
}

// Returns whether a text of the turns has a placeholder, or a content has a part that is not text.
bool Turns::names_media() const {
  return std::ranges::any_of(turns_, [](const Json& turn) {
    if (!turn.is_object()) return false;
    const Json* content = json_member(turn, "value");
    if (content == nullptr) content = json_member(turn, "content");
    return content != nullptr && content_names_media(*content);
  });
}

Status Turns::place_media() {
  if (names_media()) return {};
  ISOCOST_ASSIGN(const std::vector<MediaReference> media, listed_media(object_));
  if (media.empty()) return {};
  const auto is_users = [](const Json& turn) {
    const Json* speaker = json_member(turn, "from");
    if (speaker == nullptr) speaker = json_member(turn, "role");
    if (speaker == nullptr || !speaker->is_string()) return false;
    const auto role = turn_role(speaker->get_ref<const std::string&>());
    return role && role->name == "user";
  };
  const auto turn = std::ranges::find_if(turns_, is_users);
  if (turn == turns_.end()) return {};  // The counts of placeholders and files will differ.
  Json* content = json_member(*turn, "value");
  if (content == nullptr) content = json_member(*turn, "content");
  if (content == nullptr) return {};
  std::string tags;
  Json parts = Json::array();
  for (const MediaReference& medium : media) {
    const std::string_view kind = modality_name(medium.modality.value_or(Modality::kImage));
    tags += "<" + std::string(kind) + ">";
    parts.push_back({{"type", kind}});
  }
  if (content->is_string()) *content = tags + content->get<std::string>();
  if (!content->is_array()) return {};
  for (Json& part : *content) parts.push_back(std::move(part));
  *content = std::move(parts);
  return {};
}

}  // namespace

bool is_instruction(const Json& object) {
  const Json* conversation = json_member(object, "conversation");
  const bool has_rounds = conversation != nullptr && conversation->is_array();
  if (has_rounds || is_preference(object)) return true;
  const bool asks = !present(object, kAsked).empty() || !present(object, kInputs).empty();
  return asks && !present(object, kAnswers).empty();
}

Status refuse_preferences(const Json& object) {
  const auto is_judged = [&](const char* name) {
    const Json* value = json_member(object, name);
    return value != nullptr && value->is_boolean();
  };
  if (is_preference(object)) {
    return corrupt_record(
        "is preference data ('chosen' and 'rejected'), which no recipe trains on: write the answer "
        "to learn as 'messages', and leave the other out");
  }
  for (const char* name : {"label", "kto_tag"}) {
    if (!is_judged(name)) continue;
    return corrupt_record("is preference data ('" + std::string(name) +
                          "' says whether the answer is good), which no recipe trains on: keep "
                          "the records with good answers, without '" +
                          name + "'");
  }
  return {};
}

Result<bool> write_turns(Json& object) {
  Turns turns(object);
  ISOCOST_TRY(turns.write());
  return turns.had_several_answers();
}

}  // namespace isocost
