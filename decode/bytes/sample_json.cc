// Parses a sample's JSON part event by event, so that the user's other members cost no memory.

#include "decode/bytes/sample_json.h"

#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/utf8.h"
#include "decode/bytes/json_reader.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {
namespace {

constexpr std::size_t kMaxDepth = 64;

// Language and task belong to Whisper's transcripts; the sample's key stands in for "id".
constexpr std::array<std::string_view, 6> kRead = {"text", "messages", "conversations",
                                                   "task", "language", "id"};
constexpr std::array<std::string_view, 2> kReadBesideTurns = {"system", "tools"};

bool is_list_of_turns(std::string_view name) {
  return name == "messages" || name == "conversations";
}

class SampleReader final : public JsonEvents {
 public:
  explicit SampleReader(std::string_view weight_key) : weight_key_(weight_key) {}
  Status boolean(bool /*value*/) override { return other(); }
  Status number(std::string_view token) override;
  Status string(std::string& value) override;
  Status key(std::string& name) override;
  Status begin_object() override;
  Status begin_array() override;
  Status end_object() override { return shallower(); }
  Status end_array() override { return shallower(); }
  // A null of the part as a whole is no object; of a member it means that the member is absent.
  Status null() override { return depth_ == 0 ? other() : Status(); }

  SampleJson take() &&;

 private:
  bool at_member(std::string_view name) const { return depth_ == 1 && key_ == name; }
  bool at_weight() const { return !weight_key_.empty() && at_member(weight_key_); }
  Status other();
  void note();
  Status shallower() {
    --depth_;
    return {};
  }

  const std::string weight_key_;
  SampleJson found_;
  std::set<std::string, std::less<>> names_;  // of the members that are not null
  std::string key_;
  std::size_t depth_ = 0;
  bool seen_text_ = false;
  bool seen_weight_ = false;
};

// Takes note of the present member, which is not null.
void SampleReader::note() {
  if (depth_ != 1) return;
  if (is_list_of_turns(key_)) found_.is_conversation = true;
  constexpr std::size_t kMaxName = 100;
  if (names_.size() < SampleJson::kMostUnread + kRead.size() + 1) {
    names_.insert(printable_utf8(std::string_view(key_).substr(0, kMaxName)));
  }
}

// Takes a value that is none of ours, and must not stand in the place of one.
Status SampleReader::other() {
  if (depth_ == 0) return corrupt("is no object");
  if (at_member("text")) return corrupt("has a 'text' that is no string");
  if (at_weight()) return corrupt("has a '" + key_ + "' that is no number");
  note();
  return {};
}

Status SampleReader::number(std::string_view token) {
  if (!at_weight()) return other();
  const double value = json_number(token);
  constexpr double kMost = 3e38;  // what the wire takes
  if (!(value >= 0 && value <= kMost)) {
    return corrupt("has the '" + key_ + "' " + std::string(token.substr(0, 40)) +
                   ", which is negative, too large or no number");
  }
  found_.weight = static_cast<float>(value);
  return {};
}

Status SampleReader::string(std::string& value) {
  if (!at_member("text")) return other();
  found_.text = std::move(value);
  return {};
}

Status SampleReader::key(std::string& name) {
  if (depth_ != 1) return {};
  key_ = std::move(name);
  bool* seen = at_member("text") ? &seen_text_ : at_weight() ? &seen_weight_ : nullptr;
  if (seen != nullptr && std::exchange(*seen, true)) {
    return corrupt("has the member " + key_ + " twice");
  }
  return {};
}

Status SampleReader::begin_object() {
  if (depth_ > 0) ISOCOST_TRY(other());
  ++depth_;
  return {};
}

Status SampleReader::begin_array() {
  ISOCOST_TRY(other());
  ++depth_;
  return {};
}

SampleJson SampleReader::take() && {
  for (const std::string_view name : kRead) names_.erase(std::string(name));
  names_.erase(weight_key_);
  if (found_.is_conversation) {
    for (const std::string_view name : kReadBesideTurns) names_.erase(std::string(name));
  }
  for (const std::string& name : names_) {
    if (found_.unread.size() < SampleJson::kMostUnread) found_.unread.push_back(name);
  }
  return std::move(found_);
}

}  // namespace

Result<SampleJson> parse_sample_json(std::string_view text, std::string_view weight_key) {
  SampleReader reader(weight_key);
  if (auto read = read_json(text, reader, kMaxDepth); !read) {
    return corrupt("its JSON " + read.error().message());
  }
  return std::move(reader).take();
}

}  // namespace isocost
