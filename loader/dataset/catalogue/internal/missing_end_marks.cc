#include "loader/dataset/catalogue/internal/missing_end_marks.h"

namespace isocost {

bool are_cut_off(std::uint64_t without_end_mark, std::uint64_t shards) {
  constexpr std::uint64_t kFewest = 2;
  constexpr std::uint64_t kOneOf = 100;
  return without_end_mark >= kFewest && without_end_mark * kOneOf >= shards;
}

}  // namespace isocost
