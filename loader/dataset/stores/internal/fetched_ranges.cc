#include "loader/dataset/stores/internal/fetched_ranges.h"

#include <algorithm>

#include "loader/dataset/stores/internal/object_file.h"

namespace isocost {

FetchedRanges::FetchedRanges(const std::shared_ptr<const ObjectFile>& file,
                             std::span<const ByteRange> ranges, const std::stop_token& stop)
    : rest_(file, stop) {
  chunks_.reserve(ranges.size());
  for (const ByteRange& range : ranges) {
    const ByteRange within{std::max<std::int64_t>(range.begin, 0), std::min(range.end, size())};
    if (within.begin >= within.end) continue;
    chunks_.push_back(std::make_unique<const ObjectChunk>(*file, within, stop));
  }
}

Result<std::size_t> FetchedRanges::read_at(std::int64_t offset,
                                           std::span<std::byte> destination) const {
  if (offset < 0) return Error(ErrorCode::kInvalidArgument, "negative read offset");
  std::size_t done = 0;
  while (done < destination.size() && offset < size()) {
    std::span<std::byte> left = destination.subspan(done);
    const auto chunk = std::ranges::find_if(
        chunks_, [&](const auto& candidate) { return candidate->holds(offset); });
    if (chunk == chunks_.end()) {  // up to the next chunk
      for (const auto& next : chunks_) {
        if (next->range().begin <= offset) continue;
        const auto gap = static_cast<std::size_t>(next->range().begin - offset);
        left = left.first(std::min(left.size(), gap));
      }
    }
    ISOCOST_ASSIGN(const std::size_t read, chunk == chunks_.end() ? rest_.read_at(offset, left)
                                                                  : (*chunk)->copy(offset, left));
    if (read == 0) break;
    done += read;
    offset += static_cast<std::int64_t>(read);
  }
  return done;
}

}  // namespace isocost
