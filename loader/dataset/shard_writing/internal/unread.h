#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/dataset/shard_writing/make_shards.h"

namespace isocost {

/// Counts of keys, parts and files that no model sees, by kind and name. Single-thread.
class UnreadCounts {
 public:
  static constexpr std::size_t kMaxNames = 1000;  ///< Further names are counted together.

  void add(std::string kind, std::string_view name, std::uint64_t count = 1);
  /// Returns the counts in the order of kind and name.
  std::vector<Unread> take();

 private:
  std::map<std::pair<std::string, std::string>, std::uint64_t> counts_;
};

/// Returns the top-level keys of a JSON part that no recipe reads (SampleJson::unread), and "text"
/// if the sample has a text part, too. Keys in `own_keys` are left out. Returns nothing for other
/// text.
std::set<std::string> unread_json_keys(std::string_view json,
                                       std::span<const std::string_view> own_keys, bool beside_text,
                                       std::string_view weight_key);

}  // namespace isocost
