#include "loader/dataset/formats/mds_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "decode/bytes/media_bytes.h"
#include "loader/dataset/formats/mds_index.h"

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

Result<MdsValue> MdsShardReader::range(std::int64_t i) const {
  ISOCOST_ASSIGN(const auto ends, read_words(*source_, (i + 1) * kWord, 2));
  const std::int64_t begin = ends[0];
  const std::int64_t end = ends[1];
  if (begin > end || begin < (samples_ + 2) * kWord || end > source_->size()) {
    return corrupt(fmt::format("its offsets are {} and {} in a file of {} bytes", begin, end,
                               source_->size()));
  }
  return MdsValue{begin, end - begin};
}

Result<std::vector<MdsValue>> MdsShardReader::sample(std::int64_t i) const {
  ISOCOST_ASSIGN(const MdsValue range, this->range(i));
  return mds_values(*source_, range, columns_);
}

Result<std::vector<MdsValue>> mds_values(const ByteSource& source, const MdsValue& range,
                                         std::span<const MdsColumn> columns) {
  const std::int64_t end = range.offset + range.bytes;
  const auto stated =
      std::ranges::count_if(columns, [](const MdsColumn& each) { return !each.size(); });
  if (stated * kWord > range.bytes) return corrupt("it is too short for the sizes of its values");
  ISOCOST_ASSIGN(const auto words,
                 read_words(source, range.offset, static_cast<std::size_t>(stated)));
  std::vector<MdsValue> values;
  values.reserve(columns.size());
  auto word = words.begin();
  std::int64_t at = range.offset + stated * kWord;
  for (const MdsColumn& column : columns) {
    const auto fixed = column.size();
    const std::int64_t size = fixed ? *fixed : *word++;
    if (size > end - at) break;
    values.push_back({at, size});
    at += size;
  }
  if (values.size() < columns.size() || at != end) {
    return corrupt(fmt::format("its values do not fill its {} bytes", range.bytes));
  }
  return values;
}

Result<std::vector<MdsColumn>> mds_header_columns(const ByteSource& source) {
  constexpr std::int64_t kMaxHeader = std::int64_t{1} << 20;
  ISOCOST_ASSIGN(const auto words, read_words(source, 0, 2));
  const std::int64_t begin = (words[0] + 2) * kWord;
  if (words[1] < begin || words[1] - begin > kMaxHeader) {
    return corrupt("the description of its columns is not before its samples");
  }
  ISOCOST_ASSIGN(const auto bytes,
                 read_some(source, begin, static_cast<std::size_t>(words[1] - begin)));
  return parse_mds_columns({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace isocost
