#include "loader/dataset/index/record_listing.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>

#include "base/fingerprint.h"
#include "base/output_file.h"
#include "base/read_file.h"
#include "loader/dataset/index/internal/record_ranges_file.h"
#include "loader/dataset/records/record_shards.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using Shards = std::vector<std::shared_ptr<RecordShard>>;

// Returns the file in a directory of indexes that keeps how a file of records is divided.
fs::path ranges_path(const fs::path& directory, const std::string& name) {
  return directory / (name + ".records");
}

std::optional<std::vector<RecordRange>> kept_ranges(const std::string& name, const FileStamp& stamp,
                                                    const RecordListingOptions& options) {
  constexpr std::size_t kMostBytes = std::size_t{256} << 20;  // of some 5 million shards
  for (const fs::path& directory : options.directories) {
    // One that is missing, too large or of another form is made again.
    const auto text = read_file("records", ranges_path(directory, name), kMostBytes);
    if (!text) continue;
    if (auto ranges = decode_record_ranges(*text, stamp)) return ranges;
  }
  return std::nullopt;
}

// Writes how a file is divided into the first directory that can be written. Without it, the next
// start reads the file once more.
void keep_ranges(const std::string& name, const FileStamp& stamp,
                 const std::vector<RecordRange>& ranges, const RecordListingOptions& options) {
  const std::string text = encode_record_ranges(stamp, ranges);
  for (const fs::path& directory : options.directories) {
    const fs::path file = ranges_path(directory, name);
    std::error_code ignored;
    fs::create_directories(file.parent_path(), ignored);
    if (replace_file(file, text)) return;
  }
}

Result<std::vector<RecordRange>> ranges_of(RecordsFile& file, const std::string& name,
                                           const RecordListingOptions& options) {
  ISOCOST_ASSIGN(const FileStamp stamp, stamp_of(file.path()));
  if (auto kept = kept_ranges(name, stamp, options)) return *std::move(kept);
  ISOCOST_ASSIGN(const auto bytes, file.open(options.stop));
  ISOCOST_ASSIGN(auto ranges, divide_records(file.path(), bytes, kRecordsPerShard, options.progress,
                                             options.stop));
  if (ranges.empty()) {
    return Error(ErrorCode::kNotFound, file.path().string() + ": it holds no record");
  }
  if (bytes->state().stamp == stamp && !bytes->changed()) {
    keep_ranges(name, stamp, ranges, options);
  }
  return ranges;
}

std::uint64_t origin_of(const RecordRange& range, const SampleInputOptions& options) {
  Fingerprint hash;
  hash.add(std::string_view("records"));
  hash.add(range.begin);
  hash.add(range.end);
  hash.add(range.line);
  hash.add(range.number);
  hash.add(static_cast<std::uint64_t>(range.form));
  hash.add(options.number_keys ? 1 : 0);
  hash.add(options.media_root.string());
  return hash.value();
}

std::uint64_t origin_of(const std::vector<InputSample>& samples) {
  Fingerprint hash;
  hash.add(std::string_view("directory"));
  for (const InputSample& sample : samples) {
    hash.add(sample.key);
    for (const InputPart& part : sample.parts) {
      hash.add(part.name);
      hash.add(std::holds_alternative<fs::path>(part.body) ? 1 : 0);
    }
  }
  return hash.value();
}

Result<Shards> list_file(const fs::path& path, const std::string& name,
                         const RecordListingOptions& options) {
  const auto file = std::make_shared<RecordsFile>(path);
  ISOCOST_ASSIGN(const auto ranges, ranges_of(*file, name, options));
  Shards shards;
  shards.reserve(ranges.size());
  for (const RecordRange& range : ranges) {
    auto shard = std::make_shared<RecordShard>();
    shard->file = file;
    shard->range = range;
    shard->options = options.input;
    shard->origin = origin_of(range, options.input);
    shards.push_back(std::move(shard));
  }
  return shards;
}

Result<Shards> list_directory_of_files(const fs::path& path, const RecordListingOptions& options) {
  ISOCOST_ASSIGN(const auto input, SampleInput::open(path, options.input));
  Shards shards;
  for (;;) {
    if (options.stop.stop_requested()) {
      return Error(ErrorCode::kCancelled, "stopped while listing " + path.string());
    }
    ISOCOST_ASSIGN(auto sample, input->next());
    if (!sample) break;
    if (shards.empty() || shards.back()->samples.size() == kRecordsPerShard) {
      shards.push_back(std::make_shared<RecordShard>());
      shards.back()->directory = path;
      shards.back()->options = options.input;
    }
    shards.back()->samples.push_back(*std::move(sample));
  }
  if (shards.empty()) {
    return Error(ErrorCode::kNotFound,
                 path.string() + ": it holds no file of a sample that is read");
  }
  for (const auto& shard : shards) shard->origin = origin_of(shard->samples);
  return shards;
}

}  // namespace

std::string record_shard_name(const std::string& name, std::size_t number) {
  return fmt::format("{}-{:06}", name, number);
}

Result<Shards> list_record_shards(const fs::path& path, const std::string& name,
                                  const RecordListingOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return list_directory_of_files(path, options);
  return list_file(path, name, options);
}

}  // namespace isocost
