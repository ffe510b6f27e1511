#include "loader/dataset/index/checked_shard.h"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <optional>

#include "base/output_file.h"

namespace isocost {
namespace {

struct Record {
  FileStamp stamp;
  std::uint64_t hash = 0;
};

// Reads a record. Returns nothing if there is none, or if the file is no record.
std::optional<Record> read_record(const std::filesystem::path& path) {
  std::ifstream file(path);
  Record record;
  if (file >> record.stamp.bytes >> record.stamp.mtime_ns >> std::hex >> record.hash) return record;
  return std::nullopt;
}

}  // namespace

Result<bool> is_as_last_checked(const ShardFile& shard, const std::optional<ByteRange>& range,
                                const std::filesystem::path& record, const std::stop_token& stop) {
  ISOCOST_ASSIGN(const std::uint64_t hash,
                 range ? shard.plain_hash(*range, stop) : shard.whole_hash(stop));
  const FileStamp stamp = shard.state().stamp;
  const std::optional<Record> last = read_record(record);
  if (last && last->stamp == stamp) return last->hash == hash;
  // Without a record, the next check has nothing to compare with either.
  static_cast<void>(
      replace_file(record, fmt::format("{} {} {:016x}\n", stamp.bytes, stamp.mtime_ns, hash)));
  return true;
}

}  // namespace isocost
