#include "loader/dataset/shard_writing/internal/unread.h"

#include <cstddef>

#include "base/utf8.h"
#include "decode/bytes/sample_json.h"

namespace isocost {
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
                                       std::span<const std::string_view> own_keys, bool beside_text,
                                       std::string_view weight_key) {
  const auto read = parse_sample_json(json, weight_key);
  if (!read) return {};
  std::set<std::string> unread(read->unread.begin(), read->unread.end());
  if (beside_text && !read->text.empty()) unread.insert("text");
  for (const std::string_view key : own_keys) unread.erase(std::string(key));
  return unread;
}

}  // namespace isocost
