#include "loader/dataset/formats/mds_data_set.h"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/fingerprint.h"
#include "base/read_file.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxIndexBytes = std::size_t{1} << 30;

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

void add(Fingerprint& fingerprint, const MdsFile& file) {
  fingerprint.add(file.path);
  fingerprint.add(file.bytes);
  for (const StatedHash& hash : file.hashes) {
    fingerprint.add(hash.algorithm);
    fingerprint.add(hash.digest);
  }
}

Result<std::shared_ptr<const MdsStoredShard>> stored(const fs::path& directory, MdsShard shard) {
  auto result = std::make_shared<MdsStoredShard>();
  result->name = shard.raw.path;
  if (shard.zip && !is_there(directory / shard.raw.path)) {
    result->is_zip = true;
    result->name = shard.zip->path;
  }
  if (result->is_zip && !is_mds_compression(shard.compression)) {
    return Error(
        ErrorCode::kUnsupported,
        fmt::format("{}: the compression '{}' is not read; zstd and gz are: decompress it "
                    "to {}, or write the data set again",
                    (directory / result->name).string(), shard.compression, shard.raw.path));
  }
  result->shard = std::move(shard);
  return result;
}

}  // namespace

std::uint64_t MdsStoredShard::origin() const {
  Fingerprint fingerprint;
  fingerprint.add(shard.samples);
  add(fingerprint, shard.raw);
  if (shard.zip) add(fingerprint, *shard.zip);
  for (const MdsColumn& column : *columns) {
    fingerprint.add(column.name);
    fingerprint.add(static_cast<std::uint8_t>(column.encoding));
  }
  return fingerprint.value();
}

Result<std::vector<std::shared_ptr<const MdsStoredShard>>> open_mds_data_set(
    const fs::path& directory) {
  const fs::path file = directory / "index.json";
  ISOCOST_ASSIGN(const std::string text, read_file("index of MDS", file, kMaxIndexBytes));
  auto index = parse_mds_index(text);
  if (!index) return std::move(index).error().with_context(file.string());
  std::vector<std::shared_ptr<const std::vector<MdsColumn>>> columns;
  columns.reserve(index->columns.size());
  for (std::vector<MdsColumn>& each : index->columns) {
    columns.push_back(std::make_shared<const std::vector<MdsColumn>>(std::move(each)));
  }
  std::vector<std::shared_ptr<const MdsStoredShard>> shards;
  shards.reserve(index->shards.size());
  for (MdsShard& shard : index->shards) {
    const std::size_t which = shard.columns;
    ISOCOST_ASSIGN(const auto found, stored(directory, std::move(shard)));
    auto complete = std::make_shared<MdsStoredShard>(*found);
    complete->columns = columns[which];
    shards.push_back(std::move(complete));
  }
  return shards;
}

}  // namespace isocost
