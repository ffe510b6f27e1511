#include "loader/dataset/index/internal/records_builder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/fingerprint.h"
#include "base/utf8.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/formats/member_name.h"
#include "loader/dataset/index/internal/sample_indexer.h"
#include "loader/dataset/records/record_shards.h"
#include "loader/dataset/stores/file_source.h"
#include "loader/dataset/stores/watched_source.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

// Returns whether a file that cannot be opened is at fault, and not the machine: it is absent, or
// not to be read by this user.
bool is_fault_of_the_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return true;
  return access(path.c_str(), R_OK) != 0 && errno == EACCES;
}

class RecordsIndexBuilder {
 public:
  RecordsIndexBuilder(const RecordShard& shard, std::string name, const ProbeLimits& limits,
                      const SampleReading& reading)
      : shard_(shard),
        root_(shard.media_root()),
        name_(std::move(name)),
        limits_(limits),
        reading_(reading) {}

  Result<IndexContents> run(const std::stop_token& stop);

 private:
  Status begin(const std::stop_token& stop);
  Status add_records(const std::stop_token& stop);
  Status add_files(const std::stop_token& stop);
  Status add(const InputSample& sample, RecordBytes record, const std::string& location);
  Status add_part(const InputPart& part, std::size_t number, RecordBytes record);
  Status add_file(const InputPart& part, const fs::path& path);
  void refuse_other_modality(const InputPart& part);
  Result<PartSource> number_of(const fs::path& path, const FileStamp& stamp);
  std::uint64_t content_hash() const;

  const RecordShard& shard_;
  const fs::path root_;
  const std::string name_;
  const ProbeLimits limits_;
  const SampleReading& reading_;
  std::shared_ptr<const ShardFile> file_;  // null for a directory
  IndexContents contents_;
  SampleIndexer samples_{contents_, limits_, reading_};
  std::unordered_map<std::string, PartSource> files_;
};

Result<IndexContents> RecordsIndexBuilder::run(const std::stop_token& stop) {
  ISOCOST_TRY(begin(stop));
  ISOCOST_TRY(shard_.file ? add_records(stop) : add_files(stop));
  samples_.finish();
  contents_.content_hash = content_hash();
  contents_.archive.samples_when_whole = contents_.samples.size() + contents_.bad.size();
  return std::move(contents_);
}

Status RecordsIndexBuilder::begin(const std::stop_token& stop) {
  contents_.kind = shard_.kind();
  contents_.identity = {{}, limits_, reading_.hash(), shard_.origin};
  if (!shard_.file) return {};
  ISOCOST_ASSIGN(file_, shard_.file->open(stop));
  contents_.identity.stamp = file_->state().stamp;
  contents_.tar_bytes = file_->size();
  ISOCOST_ASSIGN(contents_.file_hash, file_->content_hash());
  return {};
}

Status RecordsIndexBuilder::add_records(const std::stop_token& stop) {
  ISOCOST_ASSIGN(const auto input,
                 SampleInput::open_range(shard_.path(), file_, shard_.range, shard_.options));
  for (;;) {
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while indexing");
    const auto sample = input->next();
    if (!sample) {
      if (sample.error().code() != ErrorCode::kCorrupt) return sample.error();
      samples_.close();
      contents_.bad.push_back(
          {printable_utf8(input->key()), "", input->location() + ": " + sample.error().message()});
      continue;
    }
    const std::optional<InputSample>& read = *sample;
    if (!read) break;
    ISOCOST_TRY(add(*read, input->record(), input->location()));
  }
  contents_.form = static_cast<std::uint8_t>(input->form());
  for (const std::string& remark : input->remarks()) {
    log(shard_.options.log, LogLevel::kWarning, name_ + ": " + remark);
  }
  return {};
}

Status RecordsIndexBuilder::add_files(const std::stop_token& stop) {
  for (const InputSample& sample : shard_.samples) {
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while indexing");
    ISOCOST_TRY(add(sample, {}, ""));
  }
  return {};
}

Status RecordsIndexBuilder::add(const InputSample& sample, RecordBytes record,
                                const std::string& location) {
  const bool is_new = samples_.open(sample.key);
  samples_.set_record({record.begin, record.end}, location);
  if (!is_new) {
    samples_.refuse("", fmt::format("the {0} was used before: {0}s are unique in the {1} records "
                                    "of a shard (--number-keys numbers the samples instead)",
                                    sample.key_is_id ? "id" : "key", kRecordsPerShard));
  }
  for (std::size_t i = 0; i < sample.parts.size() && !samples_.is_bad(); ++i) {
    ISOCOST_TRY(add_part(sample.parts[i], i, record));
  }
  return {};
}

Status RecordsIndexBuilder::add_part(const InputPart& part, std::size_t number,
                                     RecordBytes record) {
  if (samples_.ignores(part.name)) return {};
  // The keys of records are not checked by a reader of archives.
  if (auto reason = refuse_member(samples_.key(), part.name)) {
    samples_.refuse(part.name, *std::move(reason));
    return {};
  }
  if (const auto* path = std::get_if<fs::path>(&part.body)) return add_file(part, *path);
  const std::string& text = std::get<std::string>(part.body);
  const MemoryByteSource bytes(std::as_bytes(std::span(text)));
  if (part.offset_in_record) {
    samples_.add(part.name, bytes, kInShard, record.begin + *part.offset_in_record);
  } else {
    samples_.add(part.name, bytes, kMade, static_cast<std::int64_t>(number));
  }
  refuse_other_modality(part);
  return {};
}

Status RecordsIndexBuilder::add_file(const InputPart& part, const fs::path& path) {
  if (!modality_from_name(part.name)) {
    samples_.add(part.name, MemoryByteSource({}), kMade, 0);  // counted, and read by nobody
    return {};
  }
  auto opened = FileSource::open(path);
  if (!opened) {
    if (!is_fault_of_the_file(path)) return std::move(opened).error();
    samples_.refuse(part.name, opened.error().message());
    return {};
  }
  const FileStamp stamp = (*opened)->stamp();
  const WatchedSource bytes(*std::move(opened));
  ISOCOST_ASSIGN(const PartSource number, number_of(path, stamp));
  samples_.set_file(path.string());
  samples_.add(part.name, bytes, number, 0);
  if (auto failure = bytes.failure()) return *std::move(failure);
  refuse_other_modality(part);
  samples_.set_file("");
  return {};
}

void RecordsIndexBuilder::refuse_other_modality(const InputPart& part) {
  const PartShape* const shape = samples_.last_shape();
  if (shape == nullptr) return;
  const Status agrees = check_modality(part, *shape);
  if (!agrees) samples_.refuse(part.name, agrees.error().message());
}

// Returns the number of a file, whose path is kept from the directory of the media if it is there.
Result<PartSource> RecordsIndexBuilder::number_of(const fs::path& path, const FileStamp& stamp) {
  fs::path kept = root_.empty() ? path : path.lexically_relative(root_);
  if (kept.empty() || (path.is_absolute() && *kept.begin() == "..")) kept = path;
  const auto [found, is_new] =
      files_.emplace(kept.string(), static_cast<PartSource>(contents_.files.size() + 1));
  if (is_new) contents_.files.push_back({kept.string(), stamp});
  if (contents_.files[found->second - 1].stamp != stamp) {
    return Error(ErrorCode::kUnavailable, path.string() + ": changed while it was indexed");
  }
  return found->second;
}

std::uint64_t RecordsIndexBuilder::content_hash() const {
  Fingerprint hash;
  hash.add(contents_.file_hash);
  hash.add(shard_.range.begin);
  hash.add(shard_.range.end);
  for (const IndexedFile& file : contents_.files) {
    hash.add(file.path);
    hash.add(file.stamp.bytes);
  }
  return hash.value();
}

}  // namespace

Result<IndexContents> build_records_index(const RecordShard& shard, const std::string& name,
                                          const ProbeLimits& limits, const SampleReading& reading,
                                          const std::stop_token& stop) {
  return RecordsIndexBuilder(shard, name, limits, reading).run(stop);
}

}  // namespace isocost
