#include "loader/dataset/formats/internal/mds_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "decode/bytes/media_bytes.h"

namespace isocost {
namespace {

constexpr std::int64_t kWord = 4;

// Reads `count` words.
Result<std::vector<std::int64_t>> read_words(const ByteSource& source, std::int64_t offset,
                                             std::size_t count) {
  ISOCOST_ASSIGN(const std::vector<std::uint8_t> bytes,
                 read_some(source, offset, count * static_cast<std::size_t>(kWord)));
  if (bytes.size() < count * kWord) {
    return corrupt(fmt::format("cut off: it ends at byte {}", source.size()));
  }
  std::vector<std::int64_t> words(count);
  for (std::size_t i = 0; i < count; ++i) {
    words[i] = static_cast<std::int64_t>(little_endian(bytes, i * kWord, kWord));
  }
  return words;
}

}  // namespace

Result<MdsShardReader> MdsShardReader::open(const ByteSource& source, std::int64_t samples,
                                            std::span<const MdsColumn> columns) {
  ISOCOST_ASSIGN(const auto count, read_words(source, 0, 1));
  if (count[0] != samples) {
    return corrupt(fmt::format("its first bytes say {} samples, and its index {}; copy both again",
                               count[0], samples));
  }
  const std::int64_t header = (samples + 2) * kWord;
  if (source.size() < header) {
    return corrupt(fmt::format("cut off within the offsets of its {} samples", samples));
  }
  ISOCOST_ASSIGN(const auto first, read_words(source, kWord, 1));
  ISOCOST_ASSIGN(const auto last, read_words(source, header - kWord, 1));
  if (first[0] < header || last[0] != source.size()) {
    return corrupt(fmt::format(
        "its samples lie from byte {} to {}, and its file has {} bytes, {} of them offsets",
        first[0], last[0], source.size(), header));
  }
  return MdsShardReader(source, samples, columns);
}

Result<std::vector<MdsValue>> MdsShardReader::sample(std::int64_t i) const {
  ISOCOST_ASSIGN(const auto range, read_words(*source_, (i + 1) * kWord, 2));
  const std::int64_t begin = range[0];
  const std::int64_t end = range[1];
  if (begin > end || begin < (samples_ + 2) * kWord || end > source_->size()) {
    return corrupt(fmt::format("its offsets are {} and {} in a file of {} bytes", begin, end,
                               source_->size()));
  }
  ISOCOST_ASSIGN(const auto sizes, this->sizes(begin, end));
  std::vector<MdsValue> values;
  std::int64_t at = begin + kWord * std::ranges::count_if(columns_, [](const MdsColumn& each) {
                              return !each.size();
                            });
  for (const std::int64_t size : sizes) {
    if (size > end - at) break;
    values.push_back({at, size});
    at += size;
  }
  if (values.size() < columns_.size() || at != end) {
    return corrupt(fmt::format("its values do not fill its {} bytes", end - begin));
  }
  return values;
}

// Returns the size of each value; `begin` and `end` are those of the sample.
Result<std::vector<std::int64_t>> MdsShardReader::sizes(std::int64_t begin,
                                                        std::int64_t end) const {
  const auto stated =
      std::ranges::count_if(columns_, [](const MdsColumn& each) { return !each.size(); });
  if (stated * kWord > end - begin) return corrupt("it is too short for the sizes of its values");
  ISOCOST_ASSIGN(const auto words, read_words(*source_, begin, static_cast<std::size_t>(stated)));
  std::vector<std::int64_t> sizes;
  sizes.reserve(columns_.size());
  auto word = words.begin();
  for (const MdsColumn& column : columns_) {
    const auto size = column.size();
    sizes.push_back(size ? *size : *word++);
  }
  return sizes;
}

}  // namespace isocost
