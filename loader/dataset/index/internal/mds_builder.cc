#include "loader/dataset/index/internal/mds_builder.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decode/bytes/media_bytes.h"
#include "decode/bytes/sniff.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/formats/file_hash.h"
#include "loader/dataset/formats/mds_data_set.h"
#include "loader/dataset/formats/mds_json.h"
#include "loader/dataset/formats/mds_shard.h"
#include "loader/dataset/index/internal/sample_indexer.h"
#include "loader/dataset/stores/file_source.h"
#include "loader/dataset/stores/read_windows.h"
#include "loader/dataset/stores/watched_source.h"

namespace isocost {
namespace {

class MdsIndexBuilder {
 public:
  MdsIndexBuilder(const std::shared_ptr<const ShardFile>& file, const ShardPlace& place,
                  const ProbeLimits& limits, const SampleReading& reading)
      : file_(file),
        bytes_(std::make_shared<const WatchedSource>(
            std::make_unique<ReadWindows>(std::make_unique<MemberSource>(file, 0, file->size())))),
        path_(place.path()),
        stored_(*place.mds),
        columns_(*stored_.columns),
        limits_(limits),
        reading_(reading) {}

  Result<IndexContents> run(const std::stop_token& stop);

 private:
  Status compare(const std::stop_token& stop) const;
  Status compare_columns() const;
  Status add_samples(const std::stop_token& stop);
  void add_sample(const MdsShardReader& reader, std::int64_t number);
  void add_value(const MdsColumn& column, const MdsValue& value);
  void add_json(const std::vector<MdsValue>& values);
  void lose(const Error& error);

  const std::shared_ptr<const ShardFile> file_;
  const std::shared_ptr<const WatchedSource> bytes_;
  const std::filesystem::path path_;
  const MdsStoredShard& stored_;
  const std::vector<MdsColumn>& columns_;
  const ProbeLimits limits_;
  const SampleReading& reading_;
  IndexContents contents_;
  SampleIndexer samples_{contents_, limits_, reading_};
};

// Returns whether an error says what is wrong with the bytes, rather than that they were not read.
bool is_of_bytes(const Error& error) {
  return error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kUnsupported;
}

Result<IndexContents> MdsIndexBuilder::run(const std::stop_token& stop) {
  contents_.identity = {file_->state().stamp, limits_, reading_.hash(), stored_.origin()};
  contents_.archive.samples_when_whole = static_cast<std::uint64_t>(stored_.shard.samples);
  contents_.kind = ShardKind::kMds;
  contents_.tar_bytes = file_->size();
  ISOCOST_ASSIGN(contents_.content_hash, file_->content_hash());
  contents_.file_hash = contents_.content_hash;
  Status status = compare(stop);
  if (status) status = add_samples(stop);
  if (auto failure = bytes_->failure()) return *std::move(failure);
  if (!status && !is_of_bytes(status.error())) return std::move(status).error();
  if (!status) lose(status.error());
  samples_.finish();
  return std::move(contents_);
}

// Makes the shard one of which no sample can be read.
void MdsIndexBuilder::lose(const Error& error) {
  samples_.discard();
  contents_.samples.clear();
  contents_.bad.clear();
  contents_.archive.condition = ShardCondition::kLost;
  contents_.archive.problem = error.message() + "; copy the shard again";
}

Status MdsIndexBuilder::compare(const std::stop_token& stop) const {
  const MdsShard& shard = stored_.shard;
  const MdsFile& on_disk = stored_.is_zip ? shard.zip.value_or(shard.raw) : shard.raw;
  const auto compare_size = [](std::int64_t found, std::int64_t stated) -> Status {
    if (found == stated) return {};
    return corrupt(fmt::format("it has {} bytes, and its index says {}", found, stated));
  };
  ISOCOST_TRY(compare_size(file_->state().stamp.bytes, on_disk.bytes));
  if (!file_->problem().empty()) return corrupt(file_->problem());
  if (!file_->unread().empty()) return corrupt(file_->unread());
  ISOCOST_TRY(compare_size(file_->size(), stored_.shard.raw.bytes));
  ISOCOST_TRY(compare_hashes(*file_, stored_.shard.raw.hashes, stop));
  if (!stored_.is_zip || on_disk.hashes.empty()) return {};
  ISOCOST_ASSIGN(const auto zip, FileSource::open(path_));
  return compare_hashes(*zip, on_disk.hashes, stop);
}

// The JSON of a sample is made by the columns that the shard itself states.
Status MdsIndexBuilder::compare_columns() const {
  ISOCOST_ASSIGN(const std::vector<MdsColumn> own, mds_header_columns(*bytes_));
  if (own == columns_) return {};
  return corrupt("it states other columns than its index");
}

Status MdsIndexBuilder::add_samples(const std::stop_token& stop) {
  ISOCOST_ASSIGN(const MdsShardReader reader,
                 MdsShardReader::open(*bytes_, stored_.shard.samples, columns_));
  ISOCOST_TRY(compare_columns());
  for (std::int64_t i = 0; i < reader.samples(); ++i) {
    add_sample(reader, i);
    if (bytes_->failure()) return {};
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while indexing");
  }
  samples_.close();
  return {};
}

void MdsIndexBuilder::add_sample(const MdsShardReader& reader, std::int64_t number) {
  samples_.open(std::to_string(number));
  const auto range = reader.range(number);
  const auto values = reader.sample(number);
  if (!range || !values) {
    samples_.refuse("", (range ? values.error() : range.error()).message());
    return;
  }
  samples_.set_record({range->offset, range->offset + range->bytes}, "");
  for (std::size_t i = 0; i < values->size(); ++i) add_value(columns_[i], (*values)[i]);
  add_json(*values);
}

// Adds a value that is a part of its own.
void MdsIndexBuilder::add_value(const MdsColumn& column, const MdsValue& value) {
  if (column.use() != MdsUse::kMedium && column.use() != MdsUse::kText) return;
  const MemberSource source(bytes_, value.offset, value.bytes);
  std::string part = column.name;
  if (!modality_from_name(part)) {
    constexpr std::size_t kHead = 512;
    const auto head = read_some(source, 0, kHead);
    if (!head) {
      samples_.refuse(part, head.error().message());
      return;
    }
    if (const auto format = sniff(*head)) part += "." + std::string(extension_of(*format));
  }
  if (!samples_.ignores(part)) samples_.add(part, source, kInShard, value.offset);
}

void MdsIndexBuilder::add_json(const std::vector<MdsValue>& values) {
  if (!has_mds_json(columns_) || samples_.ignores("json")) return;
  const auto text = read_mds_json(*bytes_, columns_, values);
  if (!text) {
    samples_.refuse("json", text.error().message());
    return;
  }
  samples_.add("json", MemoryByteSource(std::as_bytes(std::span(*text))), kMade, 0);
}

}  // namespace

Result<IndexContents> build_mds_index(const std::shared_ptr<const ShardFile>& file,
                                      const ShardPlace& place, const ProbeLimits& limits,
                                      const SampleReading& reading, const std::stop_token& stop) {
  return MdsIndexBuilder(file, place, limits, reading).run(stop);
}

}  // namespace isocost
