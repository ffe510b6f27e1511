#include "costmodel/internal/rows.h"

namespace isocost {

void Rows::append(const Rows& other, const Row& row) {
  const auto its = other.of(row);
  Row& added = rows.emplace_back(row);
  added.first = static_cast<std::uint32_t>(shares.size());
  shares.insert(shares.end(), its.begin(), its.end());
}

}  // namespace isocost
