#include "loader/dataset/formats/shard_name.h"

#include <algorithm>
#include <array>

namespace isocost {
namespace {

struct ShardEnding {
  std::string_view ending;
  bool compressed;
};

constexpr std::array kEndings = {
    ShardEnding{".tar", false},
    ShardEnding{".tar.gz", true},
    ShardEnding{".tgz", true},
};

// Returns the entry of a name's ending; null if it is no shard's.
const ShardEnding* ending_of(std::string_view name) {
  const auto* const found = std::ranges::find_if(
      kEndings, [&](const ShardEnding& each) { return name.ends_with(each.ending); });
  return found == kEndings.end() ? nullptr : found;
}

}  // namespace

bool has_shard_ending(std::string_view name) { return ending_of(name) != nullptr; }

bool is_shard_name(std::string_view name) {
  return !name.starts_with('.') && has_shard_ending(name);
}

bool names_compressed_shard(std::string_view name) {
  const ShardEnding* ending = ending_of(name);
  return ending != nullptr && ending->compressed;
}

}  // namespace isocost
