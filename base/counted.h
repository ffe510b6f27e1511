#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace isocost {

/// Returns the plural of an English noun, or of a phrase that ends in one: "shard" gives "shards",
/// "global batch" "global batches", "entry" "entries". Irregular nouns are not known.
std::string plural(std::string_view noun);

/// Returns a count and what it counts, for people: "1 shard", "0 shards", "2 global batches".
template <std::integral Count>
std::string counted(Count count, std::string_view noun) {
  return std::to_string(count) + " " + (count == 1 ? std::string(noun) : plural(noun));
}

}  // namespace isocost
