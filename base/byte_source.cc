#include "base/byte_source.h"

#include <algorithm>
#include <cstring>

namespace isocost {

Result<std::size_t> MemoryByteSource::read_at(std::int64_t offset,
                                              std::span<std::byte> destination) const {
  if (offset < 0) return Error(ErrorCode::kInvalidArgument, "negative read offset");
  if (offset >= size()) return std::size_t{0};
  const auto available = bytes_.subspan(static_cast<std::size_t>(offset));
  const std::size_t count = std::min(available.size(), destination.size());
  if (count > 0) std::memcpy(destination.data(), available.data(), count);
  return count;
}

}  // namespace isocost
