#include "loader/dataset/shard_writing/internal/unread.h"

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace isocost {
namespace {

// Collects the top-level keys, and keeps no values.
class KeyReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t& name) override {
    if (depth_ == 1) keys.insert(std::move(name));
    return true;
  }
  bool start_object(std::size_t) override { return deeper(); }
  bool start_array(std::size_t) override { return deeper(); }
  bool end_object() override { return shallower(); }
  bool end_array() override { return shallower(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  std::set<std::string> keys;

 private:
  bool deeper() {
    ++depth_;
    return true;
  }
  bool shallower() {
    --depth_;
    return true;
  }

  int depth_ = 0;
};

}  // namespace

void UnreadCounts::add(std::string kind, std::string_view name, std::uint64_t count) {
  constexpr std::size_t kMaxName = 100;
  std::pair key(std::move(kind), printable_utf8(name.substr(0, kMaxName)));
  if (counts_.size() >= kMaxNames && !counts_.contains(key)) key.second = "others";
  counts_[std::move(key)] += count;
}

std::vector<Unread> UnreadCounts::take() {
  std::vector<Unread> unread;
  unread.reserve(counts_.size());
  for (const auto& [key, count] : counts_) unread.push_back({key.first, key.second, count});
  counts_.clear();
  return unread;
}

std::set<std::string> unread_json_keys(std::string_view json,
                                       std::span<const std::string_view> own_keys) {
  KeyReader reader;
  try {
    if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) return {};
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  std::set<std::string> unread = std::move(reader.keys);
  const bool conversation = unread.contains("messages") || unread.contains("conversations");
  // Language and task belong to Whisper's transcripts.
  for (const char* key : {"text", "weight", "language", "task", "messages", "conversations"}) {
    unread.erase(key);
  }
  if (conversation) {
    for (const char* key : {"system", "tools"}) unread.erase(key);
  }
  for (const std::string_view key : own_keys) unread.erase(std::string(key));
  return unread;
}

}  // namespace isocost
