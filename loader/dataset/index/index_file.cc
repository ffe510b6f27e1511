#include "loader/dataset/index/index_file.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "base/fingerprint.h"
#include "base/output_file.h"
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

std::filesystem::path index_path(const fs::path& directory, const fs::path& shard) {
  return directory / (shard.filename().string() + ".idx");
}

std::string shard_of_index(const fs::path& file) {
  return file.extension() == ".idx" ? file.stem().string() : "";
}

void remove_index(std::span<const fs::path> directories, const fs::path& shard) {
  for (const fs::path& directory : directories) {
    for (const char* extension : {".idx", ".tokens", ".checked"}) {
      std::error_code ignored;  // most are not there
      fs::remove(index_path(directory, shard).replace_extension(extension), ignored);
    }
  }
}

}  // namespace isocost
