// The first byte tells an index from a shard; the second one chooses the columns of a shard.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "loader/dataset/formats/mds_columns.h"
#include "loader/dataset/formats/mds_index.h"
#include "loader/dataset/formats/mds_json.h"
#include "loader/dataset/formats/mds_shard.h"

namespace {

constexpr std::array<std::string_view, 7> kEncodings = {"str",     "int",     "json",       "bytes",
                                                        "float16", "float64", "str_decimal"};

void read_index(std::string_view text) {
  const auto index = isocost::parse_mds_index(text);
  if (!index) return;
  for (const isocost::MdsShard& shard : index->shards) {
    const bool inside = shard.columns < index->columns.size() && shard.samples >= 0 &&
                        shard.raw.bytes >= 0 && !shard.raw.path.starts_with('/');
    if (!inside) std::abort();
  }
}

void read_shard(std::string_view text, std::uint8_t choice) {
  std::vector<isocost::MdsColumn> columns;
  for (std::size_t i = 0; i < kEncodings.size(); ++i) {
    if ((choice >> i & 1) == 0) continue;
    const std::string_view name = std::string_view("abcdefg").substr(i, 1);
    columns.push_back(isocost::mds_column(name, kEncodings.at(i)).value());
  }
  const isocost::MemoryByteSource source(std::as_bytes(std::span(text)));
  std::uint32_t samples = 0;
  if (text.size() >= 4) {
    for (int i = 3; i >= 0; --i) samples = samples << 8 | static_cast<std::uint8_t>(text[i]);
  }
  const auto reader = isocost::MdsShardReader::open(source, samples, columns);
  if (!reader) return;
  for (std::int64_t i = 0; i < reader->samples(); ++i) {
    const auto sample = reader->sample(i);
    if (!sample) continue;
    if (sample->size() != columns.size()) std::abort();
    std::vector<std::string_view> values;
    for (const auto& [offset, bytes] : *sample) {
      if (offset < 0 || bytes < 0 || offset + bytes > source.size()) std::abort();
      values.push_back(
          text.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes)));
    }
    static_cast<void>(isocost::mds_json(columns, values).has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  if (data[0] == 'i') {
    read_index(text);
  } else {
    read_shard(text, data[1]);
  }
  return 0;
}
