#include "loader/dataset/index/internal/open_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "loader/dataset/formats/mds_data_set.h"  // IWYU pragma: keep (the type of `mds`)
#include "loader/dataset/formats/tar_choice.h"    // IWYU pragma: keep (the type of `tar`)
#include "loader/dataset/index/index_beside.h"
#include "loader/dataset/index/index_format.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/index/internal/index_builder.h"
#include "loader/dataset/index/internal/mds_builder.h"
#include "loader/dataset/index/internal/records_builder.h"
#include "loader/dataset/index/record_shard.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

// Returns what is read of the samples of a shard, whose data set may say it.
SampleReading reading_of(const IndexRequest& request) {
  SampleReading reading = request.reading;
  reading.fields = request.shard.tar ? request.shard.tar->fields : nullptr;
  return reading;
}

std::uint64_t origin_of(const ShardPlace& shard) {
  if (shard.records) return shard.records->origin;
  if (shard.mds) return shard.mds->origin();
  return shard.tar ? shard.tar->origin() : 0;
}

IndexIdentity identity_of(const IndexRequest& request, const FileStamp& stamp) {
  return {stamp, request.limits, reading_of(request).hash(), origin_of(request.shard)};
}

Result<FileStamp> stamp_of_place(const ShardPlace& shard) {
  return shard.records ? stamp_of(*shard.records) : stamp_of(shard.file());
}

// Returns whether an index is that of the shard as it is now. That of an object may have been made
// on a disk, or before the object was stored again: its bytes are compared then.
Result<bool> is_of_shard(const IndexRequest& request, const IndexView& index,
                         const IndexIdentity& identity) {
  if (same_identity(index.identity(), identity)) return true;
  if (!request.shard.root->objects || !may_be_same_object(index.identity(), identity)) return false;
  const StoredFile file = request.shard.file();
  // On a disk the bytes decide whether a shard is compressed. Of an object it is its name.
  if (index.tar_bytes() != index.identity().stamp.bytes && !file.is_compressed) return false;
  ISOCOST_ASSIGN(const auto stored, open_stored(file, request.stop));
  ISOCOST_ASSIGN(const std::uint64_t hash, stored->content_hash());
  return hash == index.content_hash();
}

// Returns the index in one directory if it is current; logs why an existing one is not used, and
// raises `samples_when_whole` to what it remembers.
Result<std::unique_ptr<ShardIndex>> current_index(const IndexRequest& request, const fs::path& path,
                                                  const IndexIdentity& identity,
                                                  std::uint64_t& samples_when_whole,
                                                  const LogSink& sink) {
  auto index = ShardIndex::map(path);
  if (index) {
    ISOCOST_ASSIGN(const bool is_current, is_of_shard(request, (*index)->view(), identity));
    if (is_current) return *std::move(index);
    samples_when_whole = std::max(samples_when_whole, (*index)->view().samples_when_whole());
    log(sink, LogLevel::kInfo,
        fmt::format(
            "{}: its shard, the limits or the parts that are left out changed; indexing again",
            path.string()));
  } else if (index.error().code() != ErrorCode::kNotFound) {
    log(sink, LogLevel::kWarning,
        fmt::format("{}: {}; indexing again", path.string(), index.error().message()));
  }
  return std::unique_ptr<ShardIndex>();
}

// Returns the first current index; null if there is none. See current_index.
Result<std::unique_ptr<ShardIndex>> find_current(const IndexRequest& request,
                                                 const FileStamp& stamp,
                                                 std::uint64_t& samples_when_whole,
                                                 const LogSink& sink) {
  const IndexIdentity identity = identity_of(request, stamp);
  for (const fs::path& directory : request.shard.root->index_directories) {
    ISOCOST_ASSIGN(auto index, current_index(request, index_path(directory, request.shard.name),
                                             identity, samples_when_whole, sink));
    if (index) return index;
  }
  return std::unique_ptr<ShardIndex>();
}

Result<IndexContents> build(const IndexRequest& request, const FileStamp& stamp,
                            std::uint64_t samples_when_whole) {
  const SampleReading reading = reading_of(request);
  if (request.shard.records) {
    return build_records_index(*request.shard.records, request.shard.name, request.limits, reading,
                               request.stop);
  }
  const auto shard = open_shard(request.shard.file(), request.stop);
  if (shard) ISOCOST_TRY(refuse_misnamed_object(request.shard.file(), **shard));
  if (shard && request.shard.mds) {
    return build_mds_index(*shard, request.shard, request.limits, reading, request.stop);
  }
  if (shard) {
    return build_index(*shard, request.shard, request.limits, reading, samples_when_whole,
                       request.stop);
  }
  if (shard.error().code() != ErrorCode::kResourceExhausted) return shard.error();
  IndexContents refused;  // a bomb is a lost shard, not a failure
  refused.identity = identity_of(request, stamp);
  refused.archive = {.condition = ShardCondition::kLost,
                     .problem = shard.error().message(),
                     .unread = "",
                     .has_end_mark = false,
                     .samples_when_whole = samples_when_whole};
  return refused;
}

// Writes the index. Returns its file; an empty path if none could be written.
fs::path save(const IndexRequest& request, std::span<const std::byte> bytes) {
  std::string refusals;
  for (const fs::path& directory : request.shard.root->index_directories) {
    fs::path file = index_path(directory, request.shard.name);
    std::error_code ignored;
    fs::create_directories(file.parent_path(), ignored);
    const auto written = replace_file(file, bytes);
    if (written) return file;
    refusals += "; " + written.error().message();
  }
  log(request.log, LogLevel::kWarning,
      fmt::format("{}: its index is kept in memory and will be built again next time{}; give a "
                  "directory as index_dir",
                  request.shard.path().string(), refusals));
  return {};
}

}  // namespace

Result<IndexIdentity> identity_of(const IndexRequest& request) {
  ISOCOST_ASSIGN(const FileStamp stamp, stamp_of_place(request.shard));
  return identity_of(request, stamp);
}

Result<std::unique_ptr<ShardIndex>> open_or_build_index(const IndexRequest& request) {
  if (request.stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while indexing");
  ISOCOST_ASSIGN(FileStamp stamp, stamp_of_place(request.shard));
  std::uint64_t samples_when_whole = 0;
  if (request.before_building) {
    ISOCOST_ASSIGN(auto index, find_current(request, stamp, samples_when_whole, {}));
    if (index) return index;
    ISOCOST_TRY(request.before_building());
    ISOCOST_ASSIGN(stamp, stamp_of_place(request.shard));
  }
  ISOCOST_ASSIGN(auto index, find_current(request, stamp, samples_when_whole, request.log));
  if (index) return index;
  ISOCOST_ASSIGN(const bool is_copied, copy_index_beside(request.shard, request.log, request.stop));
  if (is_copied) {
    ISOCOST_ASSIGN(index, find_current(request, stamp, samples_when_whole, request.log));
    if (index) return index;
  }
  auto contents = build(request, stamp, samples_when_whole);
  if (!contents) return std::move(contents).error().with_context(request.shard.path().string());
  ISOCOST_ASSIGN(const FileStamp after, stamp_of_place(request.shard));
  std::vector<std::byte> bytes = encode_index(*contents);
  // A shard that changed meanwhile is indexed again by the next run.
  fs::path kept_in;
  if (after == contents->identity.stamp) kept_in = save(request, bytes);
  return ShardIndex::in_memory(std::move(bytes), std::move(kept_in));
}

Result<std::unique_ptr<ShardIndex>> build_index_in_memory(const IndexRequest& request) {
  ISOCOST_ASSIGN(const FileStamp stamp, stamp_of_place(request.shard));
  auto contents = build(request, stamp, 0);
  if (!contents) return std::move(contents).error().with_context(request.shard.path().string());
  return ShardIndex::in_memory(encode_index(*contents), {});
}

}  // namespace isocost
