#include "loader/dataset/index/index_location.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/index/record_shard.h"  // IWYU pragma: keep (the type of `records`)

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
fs::path folder_for(const fs::path& parent, const fs::path& canonical) {
  const bool ends_with_slash = !canonical.has_filename();
  const fs::path name = ends_with_slash ? canonical.parent_path().filename() : canonical.filename();
  return parent / fmt::format("{}-{:016x}", name.string(), Fingerprint::of(canonical.string()));
}

fs::path canonical_of(const fs::path& directory) {
  std::error_code failed;
  fs::path canonical = fs::weakly_canonical(directory, failed);
  return failed ? directory : canonical;
}

std::vector<fs::path> index_directories(const fs::path& shards, const fs::path& index_dir,
                                        bool are_objects) {
  const fs::path canonical = are_objects ? shards : canonical_of(shards);
  if (!index_dir.empty()) return {folder_for(index_dir, canonical)};
  std::vector<fs::path> directories;
  if (!are_objects) directories.push_back(shards / ".isocost");
  const fs::path cache = user_cache();
  if (!cache.empty()) directories.push_back(folder_for(cache, canonical));
  return directories;
}

}  // namespace

std::shared_ptr<const ShardRoot> shard_root(fs::path directory, const fs::path& index_dir,
                                            std::shared_ptr<StoredObjects> objects) {
  std::vector<fs::path> indexes = index_directories(directory, index_dir, objects != nullptr);
  return std::make_shared<const ShardRoot>(
      ShardRoot{std::move(directory), std::move(indexes), std::move(objects)});
}

std::string name_in_source(std::string_view source, std::string_view shard) {
  if (source.empty()) return std::string(shard);
  return fmt::format("{}/{}", source, shard);
}

fs::path ShardPlace::path() const { return records ? records->path() : root->directory / name; }

StoredFile ShardPlace::file() const {
  return {path(), root->objects, name, names_compressed_shard(name)};
}

fs::path index_path(const fs::path& directory, std::string_view shard) {
  return directory / (std::string(shard) + ".idx");
}

std::string shard_of_index(const fs::path& directory, const fs::path& file) {
  if (file.extension() != ".idx") return "";
  return fs::path(file).replace_extension().lexically_relative(directory).generic_string();
}

void remove_index(const ShardPlace& shard) {
  for (const fs::path& directory : shard.root->index_directories) {
    for (const char* extension : {".idx", ".tokens", ".checked"}) {
      std::error_code ignored;  // most are not there
      fs::remove(index_path(directory, shard.name).replace_extension(extension), ignored);
    }
  }
}

}  // namespace isocost
