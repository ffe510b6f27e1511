#include "loader/dataset/index/index_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "base/fingerprint.h"
#include "base/output_file.h"
#include "loader/dataset/index/internal/index_builder.h"
#include "loader/dataset/index/internal/index_layout.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

fs::path user_cache() {
  // NOLINTBEGIN(concurrency-mt-unsafe): nobody changes the environment.
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return fs::path(cache) / "isocost";
  const char* home = std::getenv("HOME");
  // NOLINTEND(concurrency-mt-unsafe)
  if (home != nullptr && *home == '/') return fs::path(home) / ".cache" / "isocost";
  return {};
}

// Returns the folder of an index: shards of one name in different directories must not share an
// index.
fs::path folder_for(const fs::path& parent, const fs::path& shards) {
  std::error_code failed;
  fs::path canonical = fs::weakly_canonical(shards, failed);
  if (failed) canonical = shards;
  return parent / fmt::format("{}-{:016x}", canonical.filename().string(),
                              Fingerprint::of(canonical.string()));
}

fs::path index_name(const fs::path& directory, const fs::path& shard) {
  return directory / (shard.filename().string() + ".idx");
}

// Returns the index in one directory if it is current; logs why an existing one is not used, and
// raises `samples_when_whole` to what it remembers.
std::unique_ptr<ShardIndex> current_index(const fs::path& path, const IndexIdentity& identity,
                                          std::uint64_t& samples_when_whole, const LogSink& sink) {
  auto index = ShardIndex::map(path);
  if (index && same_identity((*index)->view().identity(), identity)) return *std::move(index);
  if (index) {
    samples_when_whole = std::max(samples_when_whole, (*index)->view().samples_when_whole());
    log(sink, LogLevel::kInfo,
        fmt::format(
            "{}: its shard, the limits or the parts that are left out changed; indexing again",
            path.string()));
  } else if (index.error().code() != ErrorCode::kNotFound) {
    log(sink, LogLevel::kWarning,
        fmt::format("{}: {}; indexing again", path.string(), index.error().message()));
  }
  return nullptr;
}

Result<IndexContents> build(const IndexRequest& request, const FileStamp& stamp,
                            std::uint64_t samples_when_whole) {
  const auto shard = ShardFile::open(request.shard, ShardFile::kMaxInflatedBytes, request.stop);
  if (shard) {
    return build_index(*shard, request.shard.filename().string(), request.limits, request.reading,
                       samples_when_whole, request.stop);
  }
  if (shard.error().code() != ErrorCode::kResourceExhausted) return shard.error();
  IndexContents refused;  // a bomb is a lost shard, not a failure
  refused.identity = {stamp, request.limits, request.reading.hash()};
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
  for (const fs::path& directory : request.directories) {
    std::error_code ignored;
    fs::create_directories(directory, ignored);
    fs::path file = index_name(directory, request.shard);
    const auto written = replace_file(file, bytes);
    if (written) return file;
    refusals += "; " + written.error().message();
  }
  log(request.log, LogLevel::kWarning,
      fmt::format("{}: its index is kept in memory and will be built again next time{}; give a "
                  "directory as index_dir",
                  request.shard.string(), refusals));
  return {};
}

}  // namespace

Result<std::unique_ptr<ShardIndex>> ShardIndex::map(const fs::path& path) {
  std::unique_ptr<ShardIndex> index(new ShardIndex());
  ISOCOST_ASSIGN(index->mapping_, GuardedMapping::map(path));
  ISOCOST_ASSIGN(index->view_, IndexView::parse(index->mapping_.bytes()));
  index->file_ = path;
  return index;
}

Result<std::unique_ptr<ShardIndex>> ShardIndex::in_memory(std::vector<std::byte> bytes,
                                                          fs::path kept_in) {
  std::unique_ptr<ShardIndex> index(new ShardIndex());
  index->memory_ = std::move(bytes);
  index->file_ = std::move(kept_in);
  ISOCOST_ASSIGN(index->view_, IndexView::parse(index->memory_));
  return index;
}

void ShardIndex::make_stale() const {
  if (!kept()) return;
  const std::span<const std::byte> current = memory_.empty() ? mapping_.bytes() : memory_;
  std::vector<std::byte> bytes(current.begin(), current.end());
  IndexHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.shard_bytes = -1;  // the size of no file
  std::memcpy(bytes.data(), &header, sizeof(header));
  header.crc = index_crc(bytes);
  std::memcpy(bytes.data(), &header, sizeof(header));
  if (!damaged() && replace_file(file_, bytes)) return;
  std::error_code ignored;  // it may be gone already
  fs::remove(file_, ignored);
}

std::vector<fs::path> index_directories(const fs::path& shards, const fs::path& index_dir) {
  if (!index_dir.empty()) return {folder_for(index_dir, shards)};
  std::vector<fs::path> directories = {shards / ".isocost"};
  const fs::path cache = user_cache();
  if (!cache.empty()) directories.push_back(folder_for(cache, shards));
  return directories;
}

std::string shard_of_index(const fs::path& file) {
  return file.extension() == ".idx" ? file.stem().string() : "";
}

void remove_index(std::span<const fs::path> directories, const fs::path& shard) {
  for (const fs::path& directory : directories) {
    for (const char* extension : {".idx", ".tokens", ".checked"}) {
      std::error_code ignored;  // most are not there
      fs::remove(index_name(directory, shard).replace_extension(extension), ignored);
    }
  }
}

Result<std::unique_ptr<ShardIndex>> open_or_build_index(const IndexRequest& request) {
  if (request.stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while indexing");
  ISOCOST_ASSIGN(const FileStamp stamp, stamp_of(request.shard));
  std::uint64_t samples_when_whole = 0;
  for (const fs::path& directory : request.directories) {
    if (auto index = current_index(index_name(directory, request.shard),
                                   {stamp, request.limits, request.reading.hash()},
                                   samples_when_whole, request.log)) {
      return index;
    }
  }
  auto contents = build(request, stamp, samples_when_whole);
  if (!contents) return std::move(contents).error().with_context(request.shard.string());
  ISOCOST_ASSIGN(const FileStamp after, stamp_of(request.shard));
  std::vector<std::byte> bytes = encode_index(*contents);
  // A shard that changed meanwhile is indexed again by the next run.
  fs::path kept_in;
  if (after == contents->identity.stamp) kept_in = save(request, bytes);
  return ShardIndex::in_memory(std::move(bytes), std::move(kept_in));
}

}  // namespace isocost
